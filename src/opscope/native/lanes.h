// The vector operations of the lean loops, for AVX-512 and for AVX2 with FMA.
//
// Compilers vectorise the plain loop as well, but they count by adding masks. Counting the bits of
// masks in the integer units, and adding by multiply-adds in part, is what reaches the bandwidth of
// memory. Functions are `static` for the reason given in stats.h.
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
  static Doubles abs(Doubles v) { return _mm512_abs_pd(v); }
  static Floats min(Floats a, Floats b) { return _mm512_min_ps(a, b); }
  static Floats max(Floats a, Floats b) { return _mm512_max_ps(a, b); }
  static int count_zero(Floats v) {
    return _mm_popcnt_u32(_mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_EQ_OQ));
  }
  static int count_negative(Floats v) {
    return _mm_popcnt_u32(_mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_LT_OQ));
  }

  static Words all_words(int16_t v) { return _mm512_set1_epi16(v); }
  // Integers in the order of the sign-and-magnitude numbers they are made of, and back again.
  static Words ordered(Words v) {
    return _mm512_xor_si512(v, _mm512_srli_epi16(_mm512_srai_epi16(v, 15), 1));
  }
  static Words min(Words a, Words b) { return _mm512_min_epi16(a, b); }
  static Words max(Words a, Words b) { return _mm512_max_epi16(a, b); }
  static void count_words(Words v, int64_t& zero, int64_t& negative) {
    const __mmask32 zeros = _mm512_testn_epi16_mask(v, _mm512_set1_epi16(0x7fff));
    zero += _mm_popcnt_u32(zeros);
    negative += _mm_popcnt_u32(_mm512_movepi16_mask(v) & ~zeros);
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
  static Doubles abs(Doubles v) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), v); }
  static Floats min(Floats a, Floats b) { return _mm256_min_ps(a, b); }
  static Floats max(Floats a, Floats b) { return _mm256_max_ps(a, b); }
  static int count_zero(Floats v) {
    return _mm_popcnt_u32(_mm256_movemask_ps(_mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_EQ_OQ)));
  }
  static int count_negative(Floats v) {
    return _mm_popcnt_u32(_mm256_movemask_ps(_mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_LT_OQ)));
  }

  static Words all_words(int16_t v) { return _mm256_set1_epi16(v); }
  static Words ordered(Words v) {
    return _mm256_xor_si256(v, _mm256_srli_epi16(_mm256_srai_epi16(v, 15), 1));
  }
  static Words min(Words a, Words b) { return _mm256_min_epi16(a, b); }
  static Words max(Words a, Words b) { return _mm256_max_epi16(a, b); }
  static void count_words(Words v, int64_t& zero, int64_t& negative) {
    // A mask has two bits per word; the upper one is the sign.
    const Words shifted = _mm256_add_epi16(v, v);
    const Words is_zero = _mm256_cmpeq_epi16(shifted, _mm256_setzero_si256());
    const auto zeros = static_cast<unsigned>(_mm256_movemask_epi8(is_zero));
    const auto signs = static_cast<unsigned>(_mm256_movemask_epi8(v)) & 0xaaaaaaaa;
    zero += _mm_popcnt_u32(zeros & 0xaaaaaaaa);
    negative += _mm_popcnt_u32(signs & ~zeros);
  }
};

#endif

}  // namespace
}  // namespace opscope
