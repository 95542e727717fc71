// The vector operations of the lean loops, for AVX-512 and for AVX2 with FMA.
//
// Compilers vectorise the plain loop as well, but not by what reaches the bandwidth of memory:
// masks that select what is added, order and counts taken from the bits as they are stored, and
// sums of small integers by multiply-adds of pairs. Functions have no names outside of their file,
// for the reason given in stats.h.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace opscope {
namespace {

#ifdef __AVX512F__

struct Lanes {
  using Floats = __m512;
  using Doubles = __m512d;
  using Half = __m256i;    // as many 32-bit numbers as there are Doubles
  using Quarter = __m128i;  // as many 16-bit numbers as there are Doubles
  using Ints = __m512i;    // of 8, 16, 32 or 64 bits
  using Mask = __mmask32;  // of 16-bit numbers, of which 32-bit and 64-bit ones use the lowest bits
  static constexpr int kBytes = 64, kDoubles = 8;

  static Floats load(const float* x) { return _mm512_loadu_ps(x); }
  static Doubles load(const double* x) { return _mm512_loadu_pd(x); }
  static Ints load_ints(const void* x) { return _mm512_loadu_si512(x); }
  static Half load_half(const void* x) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(x));
  }
  static Quarter load_quarter(const void* x) {
    return _mm_loadu_si128(static_cast<const __m128i*>(x));
  }

  static Floats all(float v) { return _mm512_set1_ps(v); }
  static Doubles all(double v) { return _mm512_set1_pd(v); }
  static Ints none() { return _mm512_setzero_si512(); }
  static Ints all8(int v) { return _mm512_set1_epi8(static_cast<char>(v)); }
  static Ints all16(int v) { return _mm512_set1_epi16(static_cast<short>(v)); }
  static Ints all32(int v) { return _mm512_set1_epi32(v); }
  static Ints all64(int64_t v) { return _mm512_set1_epi64(v); }

  // ---- float64
  static Doubles widen(Half v) { return _mm512_cvtps_pd(_mm256_castsi256_ps(v)); }
  static Doubles widen_halves(Quarter v) { return _mm512_cvtps_pd(_mm256_cvtph_ps(v)); }
  static Doubles widen_signed(Half v) { return _mm512_cvtepi32_pd(v); }
  static Doubles widen_unsigned(Half v) { return _mm512_cvtepu32_pd(v); }
  static Half even_words(Half v) { return _mm256_slli_epi32(v, 16); }
  static Half odd_words(Half v) {
    return _mm256_and_si256(v, _mm256_set1_epi32(static_cast<int>(0xffff0000)));
  }
  static Doubles as_doubles(Ints v) { return _mm512_castsi512_pd(v); }
  static Doubles add(Doubles a, Doubles b) { return _mm512_add_pd(a, b); }
  static Doubles subtract(Doubles a, Doubles b) { return _mm512_sub_pd(a, b); }
  static Doubles multiply_add(Doubles a, Doubles b, Doubles c) { return _mm512_fmadd_pd(a, b, c); }
  static Doubles root(Doubles v) { return _mm512_sqrt_pd(v); }
  static Doubles min(Doubles a, Doubles b) { return _mm512_min_pd(a, b); }
  static Doubles max(Doubles a, Doubles b) { return _mm512_max_pd(a, b); }
  static Mask zeros(Doubles v) { return _mm512_cmp_pd_mask(v, _mm512_setzero_pd(), _CMP_EQ_OQ); }
  static Mask negatives(Doubles v) {
    return _mm512_cmp_pd_mask(v, _mm512_setzero_pd(), _CMP_LT_OQ);
  }
  // `sum` and the negative ones of v, which lanes PART · kDoubles … of the mask say.
  template <int PART>
  static Doubles add_negative(Doubles sum, Doubles v, Mask negative) {
    // Shifting 16 bits needs no upper ones, which would have to be cleared before.
    const unsigned part = PART == 0   ? negative
                          : PART == 1 ? _kshiftri_mask16(static_cast<__mmask16>(negative), 8)
                                      : _kshiftri_mask32(negative, PART * kDoubles);
    return _mm512_mask_add_pd(sum, static_cast<__mmask8>(part), sum, v);
  }
  static double total(Doubles v) { return _mm512_reduce_add_pd(v); }
  static double lowest(Doubles v) { return _mm512_reduce_min_pd(v); }
  static double highest(Doubles v) { return _mm512_reduce_max_pd(v); }

  // The moduli of complex numbers of float32 that are one vector.
  static Doubles moduli(const void* x) {
    const Ints v = load_ints(x);
    const Doubles real = widen(_mm512_cvtepi64_epi32(v));
    const Doubles imaginary = widen(_mm512_cvtepi64_epi32(_mm512_srli_epi64(v, 32)));
    return root(multiply_add(real, real, _mm512_mul_pd(imaginary, imaginary)));
  }
  // Two vectors of numbers and of others between them, each on its own; the order may be any.
  static Doubles firsts(Doubles a, Doubles b) { return _mm512_unpacklo_pd(a, b); }
  static Doubles seconds(Doubles a, Doubles b) { return _mm512_unpackhi_pd(a, b); }
  static Doubles multiply(Doubles a, Doubles b) { return _mm512_mul_pd(a, b); }
  static Doubles bor(Doubles a, Doubles b) { return _mm512_or_pd(a, b); }
  static Mask below(Doubles v, Doubles bound) { return _mm512_cmp_pd_mask(v, bound, _CMP_LT_OQ); }

  // ---- float32
  static Floats min(Floats a, Floats b) { return _mm512_min_ps(a, b); }
  static Floats max(Floats a, Floats b) { return _mm512_max_ps(a, b); }
  static float lowest(Floats v) { return _mm512_reduce_min_ps(v); }
  static float highest(Floats v) { return _mm512_reduce_max_ps(v); }
  static Mask zeros(Floats v) { return _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_EQ_OQ); }
  static Mask negatives(Floats v) {
    return _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_LT_OQ);
  }

  // ---- integers
  static Ints band(Ints a, Ints b) { return _mm512_and_si512(a, b); }
  static Ints bor(Ints a, Ints b) { return _mm512_or_si512(a, b); }
  static Ints bxor(Ints a, Ints b) { return _mm512_xor_si512(a, b); }
  static void store_ints(void* to, Ints v) { _mm512_storeu_si512(to, v); }
  static Ints add32(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
  static Ints add64(Ints a, Ints b) { return _mm512_add_epi64(a, b); }
  static Ints upper32(Ints v) { return _mm512_srli_epi64(v, 32); }
  template <int BITS>
  static Ints up16(Ints v) {
    return _mm512_slli_epi16(v, BITS);
  }
  static Ints min_s8(Ints a, Ints b) { return _mm512_min_epi8(a, b); }
  static Ints max_s8(Ints a, Ints b) { return _mm512_max_epi8(a, b); }
  static Ints min_s16(Ints a, Ints b) { return _mm512_min_epi16(a, b); }
  static Ints max_s16(Ints a, Ints b) { return _mm512_max_epi16(a, b); }
  static Ints min_u16(Ints a, Ints b) { return _mm512_min_epu16(a, b); }
  static Ints max_u16(Ints a, Ints b) { return _mm512_max_epu16(a, b); }
  static Ints min_s32(Ints a, Ints b) { return _mm512_min_epi32(a, b); }
  static Ints max_s32(Ints a, Ints b) { return _mm512_max_epi32(a, b); }
  static Ints abs8(Ints v) { return _mm512_abs_epi8(v); }
  static Ints signed_words(Half v) { return _mm512_cvtepi8_epi16(v); }
  static Ints unsigned_words(Half v) { return _mm512_cvtepu8_epi16(v); }
  // Sums of 8 unsigned bytes, as 64-bit numbers; of products of 2 words, as 32-bit numbers.
  static Ints sums_of_bytes(Ints v) { return _mm512_sad_epu8(v, _mm512_setzero_si512()); }
  static Ints sums_of_products(Ints a, Ints b) { return _mm512_madd_epi16(a, b); }
  static int64_t zero_bytes(Ints v) { return _mm_popcnt_u64(_mm512_testn_epi8_mask(v, v)); }
  static int64_t negative_bytes(Ints v) { return _mm_popcnt_u64(_mm512_movepi8_mask(v)); }

  static Mask equal16(Ints a, Ints b) { return _mm512_cmpeq_epi16_mask(a, b); }
  static Mask zero16(Ints v) { return _mm512_testn_epi16_mask(v, v); }
  static Mask negative16(Ints v) { return _mm512_movepi16_mask(v); }
  static Mask zero32(Ints v) { return _mm512_testn_epi32_mask(v, v); }
  static Mask negative32(Ints v) { return _mm512_movepi32_mask(v); }
  static Mask with_bits32(Ints v, Ints bits) { return _mm512_test_epi32_mask(v, bits); }
  static Mask zero_halves(Ints v) { return _mm512_testn_epi16_mask(v, all16(0x7fff)); }
  static Mask negative_halves(Ints v) { return _mm512_cmpgt_epu16_mask(v, all16(0x8000)); }
  static Mask but(Mask mask, Mask without) { return mask & ~without; }

  // How many lanes the masks had: in the integer units, which have nothing else to do.
  struct Count {
    int64_t lanes = 0;
    void take(Mask mask) { lanes += _mm_popcnt_u32(mask); }
    int64_t total() const { return lanes; }
  };
  using Count16 = Count;
  using Count32 = Count;
  using Count64 = Count;
};

#else

struct Lanes {
  using Floats = __m256;
  using Doubles = __m256d;
  using Half = __m128i;
  using Quarter = __m128i;  // in its lower half
  using Ints = __m256i;
  using Mask = __m256i;  // all bits of a lane are set, or none is
  static constexpr int kBytes = 32, kDoubles = 4;

  static Floats load(const float* x) { return _mm256_loadu_ps(x); }
  static Doubles load(const double* x) { return _mm256_loadu_pd(x); }
  static Ints load_ints(const void* x) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(x));
  }
  static Half load_half(const void* x) { return _mm_loadu_si128(static_cast<const __m128i*>(x)); }
  static Quarter load_quarter(const void* x) {
    return _mm_loadl_epi64(static_cast<const __m128i*>(x));
  }

  static Floats all(float v) { return _mm256_set1_ps(v); }
  static Doubles all(double v) { return _mm256_set1_pd(v); }
  static Ints none() { return _mm256_setzero_si256(); }
  static Ints all8(int v) { return _mm256_set1_epi8(static_cast<char>(v)); }
  static Ints all16(int v) { return _mm256_set1_epi16(static_cast<short>(v)); }
  static Ints all32(int v) { return _mm256_set1_epi32(v); }
  static Ints all64(int64_t v) { return _mm256_set1_epi64x(v); }

  static Doubles widen(Half v) { return _mm256_cvtps_pd(_mm_castsi128_ps(v)); }
  static Doubles widen_halves(Quarter v) { return _mm256_cvtps_pd(_mm_cvtph_ps(v)); }
  static Doubles widen_signed(Half v) { return _mm256_cvtepi32_pd(v); }
  static Doubles widen_unsigned(Half v) {
    // The bits of 2^52 with the number in its lowest place, less 2^52.
    const Ints wide = bor(_mm256_cvtepu32_epi64(v), all64(0x4330000000000000));
    return subtract(as_doubles(wide), all(0x1p52));
  }
  static Half even_words(Half v) { return _mm_slli_epi32(v, 16); }
  static Half odd_words(Half v) {
    return _mm_and_si128(v, _mm_set1_epi32(static_cast<int>(0xffff0000)));
  }
  static Doubles as_doubles(Ints v) { return _mm256_castsi256_pd(v); }
  static Doubles add(Doubles a, Doubles b) { return _mm256_add_pd(a, b); }
  static Doubles subtract(Doubles a, Doubles b) { return _mm256_sub_pd(a, b); }
  static Doubles multiply_add(Doubles a, Doubles b, Doubles c) { return _mm256_fmadd_pd(a, b, c); }
  static Doubles root(Doubles v) { return _mm256_sqrt_pd(v); }
  static Doubles min(Doubles a, Doubles b) { return _mm256_min_pd(a, b); }
  static Doubles max(Doubles a, Doubles b) { return _mm256_max_pd(a, b); }
  static Mask zeros(Doubles v) {
    return _mm256_castpd_si256(_mm256_cmp_pd(v, _mm256_setzero_pd(), _CMP_EQ_OQ));
  }
  static Mask negatives(Doubles v) {
    return _mm256_castpd_si256(_mm256_cmp_pd(v, _mm256_setzero_pd(), _CMP_LT_OQ));
  }
  template <int PART>
  static Doubles add_negative(Doubles sum, Doubles v, Mask) {
    return add(sum, min(v, _mm256_setzero_pd()));  // which is less work than using the mask
  }
  static double total(Doubles v) {
    const __m128d both = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(both, _mm_unpackhi_pd(both, both)));
  }
  static double lowest(Doubles v) {
    const __m128d both = _mm_min_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_min_sd(both, _mm_unpackhi_pd(both, both)));
  }
  static double highest(Doubles v) {
    const __m128d both = _mm_max_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_max_sd(both, _mm_unpackhi_pd(both, both)));
  }

  static Doubles moduli(const void* x) {
    const Ints order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    const Ints apart = _mm256_permutevar8x32_epi32(load_ints(x), order);
    const Doubles real = widen(_mm256_castsi256_si128(apart));
    const Doubles imaginary = widen(_mm256_extracti128_si256(apart, 1));
    return root(multiply_add(real, real, _mm256_mul_pd(imaginary, imaginary)));
  }
  static Doubles firsts(Doubles a, Doubles b) { return _mm256_unpacklo_pd(a, b); }
  static Doubles seconds(Doubles a, Doubles b) { return _mm256_unpackhi_pd(a, b); }
  static Doubles multiply(Doubles a, Doubles b) { return _mm256_mul_pd(a, b); }
  static Doubles bor(Doubles a, Doubles b) { return _mm256_or_pd(a, b); }
  static Mask below(Doubles v, Doubles bound) {
    return _mm256_castpd_si256(_mm256_cmp_pd(v, bound, _CMP_LT_OQ));
  }

  static Floats min(Floats a, Floats b) { return _mm256_min_ps(a, b); }
  static Floats max(Floats a, Floats b) { return _mm256_max_ps(a, b); }
  static float lowest(Floats v) {
    const __m128 four = _mm_min_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_min_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_min_ss(two, _mm_movehdup_ps(two)));
  }
  static float highest(Floats v) {
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }
  static Mask zeros(Floats v) {
    return _mm256_castps_si256(_mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_EQ_OQ));
  }
  static Mask negatives(Floats v) {
    return _mm256_castps_si256(_mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_LT_OQ));
  }

  static Ints band(Ints a, Ints b) { return _mm256_and_si256(a, b); }
  static Ints bor(Ints a, Ints b) { return _mm256_or_si256(a, b); }
  static Ints bxor(Ints a, Ints b) { return _mm256_xor_si256(a, b); }
  static void store_ints(void* to, Ints v) {
    _mm256_storeu_si256(static_cast<__m256i*>(to), v);
  }
  static Ints add32(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
  static Ints add64(Ints a, Ints b) { return _mm256_add_epi64(a, b); }
  static Ints upper32(Ints v) { return _mm256_srli_epi64(v, 32); }
  template <int BITS>
  static Ints up16(Ints v) {
    return _mm256_slli_epi16(v, BITS);
  }
  static Ints min_s8(Ints a, Ints b) { return _mm256_min_epi8(a, b); }
  static Ints max_s8(Ints a, Ints b) { return _mm256_max_epi8(a, b); }
  static Ints min_s16(Ints a, Ints b) { return _mm256_min_epi16(a, b); }
  static Ints max_s16(Ints a, Ints b) { return _mm256_max_epi16(a, b); }
  static Ints min_u16(Ints a, Ints b) { return _mm256_min_epu16(a, b); }
  static Ints max_u16(Ints a, Ints b) { return _mm256_max_epu16(a, b); }
  static Ints min_s32(Ints a, Ints b) { return _mm256_min_epi32(a, b); }
  static Ints max_s32(Ints a, Ints b) { return _mm256_max_epi32(a, b); }
  static Ints abs8(Ints v) { return _mm256_abs_epi8(v); }
  static Ints signed_words(Half v) { return _mm256_cvtepi8_epi16(v); }
  static Ints unsigned_words(Half v) { return _mm256_cvtepu8_epi16(v); }
  static Ints sums_of_bytes(Ints v) { return _mm256_sad_epu8(v, none()); }
  static Ints sums_of_products(Ints a, Ints b) { return _mm256_madd_epi16(a, b); }
  static int64_t zero_bytes(Ints v) {
    return negative_bytes(_mm256_cmpeq_epi8(v, none()));
  }
  static int64_t negative_bytes(Ints v) {
    return _mm_popcnt_u32(static_cast<unsigned>(_mm256_movemask_epi8(v)));
  }

  static Mask equal16(Ints a, Ints b) { return _mm256_cmpeq_epi16(a, b); }
  static Mask zero16(Ints v) { return _mm256_cmpeq_epi16(v, none()); }
  static Mask negative16(Ints v) { return _mm256_srai_epi16(v, 15); }
  static Mask zero32(Ints v) { return _mm256_cmpeq_epi32(v, none()); }
  static Mask negative32(Ints v) { return _mm256_srai_epi32(v, 31); }
  static Mask with_bits32(Ints, Ints) { return none(); }  // add_negative looks for itself
  static Mask zero_halves(Ints v) { return zero16(_mm256_add_epi16(v, v)); }
  static Mask negative_halves(Ints v) { return but(negative16(v), zero_halves(v)); }
  static Mask but(Mask mask, Mask without) { return _mm256_andnot_si256(without, mask); }

  // Each lane counts for itself; a mask is -1 there.
  template <class T>
  struct Count {
    Ints lanes = none();
    void take(Mask mask) {
      lanes = sizeof(T) == 2   ? _mm256_sub_epi16(lanes, mask)
              : sizeof(T) == 4 ? _mm256_sub_epi32(lanes, mask)
                               : _mm256_sub_epi64(lanes, mask);
    }
    int64_t total() const {
      T each[kBytes / sizeof(T)];
      std::memcpy(each, &lanes, sizeof lanes);
      int64_t sum = 0;
      for (const T one : each) sum += static_cast<int64_t>(one);
      return sum;
    }
  };
  using Count16 = Count<uint16_t>;
  using Count32 = Count<uint32_t>;
  using Count64 = Count<uint64_t>;
};

#endif

}  // namespace
}  // namespace opscope
