// The vector operations of the lean loops, for AVX-512 and for AVX2 with FMA.
//
// Compilers vectorise the plain loop as well, but they count by adding masks. Counting the bits of
// masks in the integer units, and adding by multiply-adds in part, is what reaches the bandwidth of
// memory. The sum of |x| is that of x less twice that of the negative x, which a mask selects.
// Functions are `static` for the reason given in stats.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace opscope {
namespace {

#ifdef __AVX512F__

struct Lanes {
  using Floats = __m512;
  using Doubles = __m512d;
  using Half = __m256i;   // as many 32-bit numbers as there are Doubles
  using Words = __m512i;  // of 16 bits
  static constexpr int kFloats = 16, kWords = 32;

  static Floats load(const float* x) { return _mm512_loadu_ps(x); }
  static Half load_half(const void* x) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(x));
  }
  static Words load_words(const void* x) { return _mm512_loadu_si512(x); }
  static Floats all(float v) { return _mm512_set1_ps(v); }
  static Doubles zero() { return _mm512_setzero_pd(); }
  static Doubles widen(Half v) { return _mm512_cvtps_pd(_mm256_castsi256_ps(v)); }
  static Half even_words(Half v) { return _mm256_slli_epi32(v, 16); }
  static Half odd_words(Half v) {
    return _mm256_and_si256(v, _mm256_set1_epi32(static_cast<int>(0xffff0000)));
  }

  static Doubles add(Doubles a, Doubles b) { return _mm512_add_pd(a, b); }
  static Doubles multiply_add(Doubles a, Doubles b, Doubles c) {
    return _mm512_fmadd_pd(a, b, c);
  }
  static Doubles ones() { return _mm512_set1_pd(1.0); }
  static Doubles add_negative(Doubles sum, Doubles v, unsigned mask) {
    return _mm512_mask_add_pd(sum, static_cast<__mmask8>(mask), sum, v);
  }
  static Floats min(Floats a, Floats b) { return _mm512_min_ps(a, b); }
  static Floats max(Floats a, Floats b) { return _mm512_max_ps(a, b); }
  static double total(Doubles v) { return _mm512_reduce_add_pd(v); }
  static float lowest(Floats v) { return _mm512_reduce_min_ps(v); }
  static float highest(Floats v) { return _mm512_reduce_max_ps(v); }
  static unsigned zeros(Floats v) {
    return _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_EQ_OQ);
  }
  static unsigned negatives(Floats v) {
    return _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_LT_OQ);
  }

  static Words all_words(int16_t v) { return _mm512_set1_epi16(v); }
  static Words signed_max(Words a, Words b) { return _mm512_max_epi16(a, b); }
  static Words unsigned_max(Words a, Words b) { return _mm512_max_epu16(a, b); }
  static Words unsigned_min(Words a, Words b) { return _mm512_min_epu16(a, b); }
  static void count_words(Words v, int64_t& zero, int64_t& negative, unsigned& signs) {
    const unsigned zeros = _mm512_testn_epi16_mask(v, _mm512_set1_epi16(0x7fff));
    signs = _mm512_movepi16_mask(v);
    zero += _mm_popcnt_u32(zeros);
    negative += _mm_popcnt_u32(signs & ~zeros);
  }
  // Which of the even and of the odd words of the first and second half have their sign set.
  static unsigned even_signs(unsigned signs, int half) {
    return _pext_u32(signs, 0x55555555) >> 8 * half;
  }
  static unsigned odd_signs(unsigned signs, int half) {
    return _pext_u32(signs, 0xaaaaaaaa) >> 8 * half;
  }
};

#else

struct Lanes {
  using Floats = __m256;
  using Doubles = __m256d;
  using Half = __m128i;
  using Words = __m256i;
  static constexpr int kFloats = 8, kWords = 16;

  static Floats load(const float* x) { return _mm256_loadu_ps(x); }
  static Half load_half(const void* x) { return _mm_loadu_si128(static_cast<const __m128i*>(x)); }
  static Words load_words(const void* x) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(x));
  }
  static Floats all(float v) { return _mm256_set1_ps(v); }
  static Doubles zero() { return _mm256_setzero_pd(); }
  static Doubles widen(Half v) { return _mm256_cvtps_pd(_mm_castsi128_ps(v)); }
  static Half even_words(Half v) { return _mm_slli_epi32(v, 16); }
  static Half odd_words(Half v) {
    return _mm_and_si128(v, _mm_set1_epi32(static_cast<int>(0xffff0000)));
  }

  static Doubles add(Doubles a, Doubles b) { return _mm256_add_pd(a, b); }
  static Doubles multiply_add(Doubles a, Doubles b, Doubles c) {
    return _mm256_fmadd_pd(a, b, c);
  }
  static Doubles ones() { return _mm256_set1_pd(1.0); }
  static Doubles add_negative(Doubles sum, Doubles v, unsigned) {
    return _mm256_add_pd(sum, _mm256_min_pd(v, _mm256_setzero_pd()));
  }
  static Floats min(Floats a, Floats b) { return _mm256_min_ps(a, b); }
  static Floats max(Floats a, Floats b) { return _mm256_max_ps(a, b); }
  static double total(Doubles v) {
    const __m128d both = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(both, _mm_unpackhi_pd(both, both)));
  }
  static float lowest(Floats v) {
    __m128 left = _mm_min_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    left = _mm_min_ps(left, _mm_movehl_ps(left, left));
    return _mm_cvtss_f32(_mm_min_ss(left, _mm_shuffle_ps(left, left, 1)));
  }
  static float highest(Floats v) {
    __m128 left = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    left = _mm_max_ps(left, _mm_movehl_ps(left, left));
    return _mm_cvtss_f32(_mm_max_ss(left, _mm_shuffle_ps(left, left, 1)));
  }
  static unsigned zeros(Floats v) {
    const __m256 equal = _mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_EQ_OQ);
    return static_cast<unsigned>(_mm256_movemask_ps(equal));
  }
  static unsigned negatives(Floats v) {
    const __m256 below = _mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_LT_OQ);
    return static_cast<unsigned>(_mm256_movemask_ps(below));
  }

  static Words all_words(int16_t v) { return _mm256_set1_epi16(v); }
  static Words signed_max(Words a, Words b) { return _mm256_max_epi16(a, b); }
  static Words unsigned_max(Words a, Words b) { return _mm256_max_epu16(a, b); }
  static Words unsigned_min(Words a, Words b) { return _mm256_min_epu16(a, b); }
  static void count_words(Words v, int64_t& zero, int64_t& negative, unsigned& signs) {
    // A mask has two bits per word; the upper one is the sign.
    const Words is_zero = _mm256_cmpeq_epi16(_mm256_add_epi16(v, v), _mm256_setzero_si256());
    const auto zeros = static_cast<unsigned>(_mm256_movemask_epi8(is_zero));
    signs = static_cast<unsigned>(_mm256_movemask_epi8(v)) & 0xaaaaaaaa;
    zero += _mm_popcnt_u32(zeros & 0xaaaaaaaa);
    negative += _mm_popcnt_u32(signs & ~zeros);
  }
  static unsigned even_signs(unsigned, int) { return 0; }  // add_negative looks for itself
  static unsigned odd_signs(unsigned, int) { return 0; }
};

#endif

}  // namespace
}  // namespace opscope
