#include "data_loader/kernels.h"

#include <immintrin.h>

#include <cstring>

namespace hpu::data_loader {

#pragma GCC push_options
#pragma GCC target("sse4.2")
namespace v2 {

using Vector = __m128i;
constexpr int kLanes = 1;

inline Vector Zero() { return _mm_setzero_si128(); }
inline Vector Broadcast(uint32_t value) { return _mm_set1_epi32(static_cast<int>(value)); }
inline Vector Add(Vector a, Vector b) { return _mm_add_epi32(a, b); }
inline Vector MultiplyPairs(Vector a, Vector b) { return _mm_madd_epi16(a, b); }
inline Vector ShiftLeft(Vector a) { return _mm_slli_epi32(a, kLowBits); }
inline Vector ShiftRight(Vector a) { return _mm_srai_epi32(a, kWeightBits); }
inline Vector MixLow(Vector a, Vector b) { return _mm_unpacklo_epi8(a, b); }
inline Vector MixHigh(Vector a, Vector b) { return _mm_unpackhi_epi8(a, b); }
inline Vector Pack(Vector a, Vector b) { return _mm_packus_epi32(a, b); }
inline Vector PackBytes(Vector a, Vector b) { return _mm_packus_epi16(a, b); }
// From 32-bit values to bytes, in the first four bytes of each lane.
inline Vector PackBytes(Vector a) { return PackBytes(Pack(a, a), a); }
inline Vector Shuffle(Vector a, Vector pattern) { return _mm_shuffle_epi8(a, pattern); }
// Bytes a to h as 16-bit values.
inline Vector Pattern(char a, char b, char c, char d, char e, char f, char g, char h) {
  return _mm_setr_epi8(a, -1, b, -1, c, -1, d, -1, e, -1, f, -1, g, -1, h, -1);
}
inline Vector Load(const uint8_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
inline void Store(Vector a, uint8_t* to) { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), a); }
inline Vector LoadLanes(const uint8_t* from, size_t stride, const size_t* lanes) {
  return Load(from + lanes[0] * stride);
}
inline Vector LoadHalfLanes(const uint8_t* from, size_t stride, const size_t* lanes) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + lanes[0] * stride));
}
inline void StoreLanes(Vector a, uint8_t* to, size_t stride, const size_t* lanes) {
  const int pixel = _mm_cvtsi128_si32(a);
  std::memcpy(to + lanes[0] * stride, &pixel, sizeof pixel);
}

#include "data_loader/kernels.inc"

}  // namespace v2
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx2")
namespace v3 {

using Vector = __m256i;
constexpr int kLanes = 2;

inline Vector Zero() { return _mm256_setzero_si256(); }
inline Vector Broadcast(uint32_t value) { return _mm256_set1_epi32(static_cast<int>(value)); }
inline Vector Add(Vector a, Vector b) { return _mm256_add_epi32(a, b); }
inline Vector MultiplyPairs(Vector a, Vector b) { return _mm256_madd_epi16(a, b); }
inline Vector ShiftLeft(Vector a) { return _mm256_slli_epi32(a, kLowBits); }
inline Vector ShiftRight(Vector a) { return _mm256_srai_epi32(a, kWeightBits); }
inline Vector MixLow(Vector a, Vector b) { return _mm256_unpacklo_epi8(a, b); }
inline Vector MixHigh(Vector a, Vector b) { return _mm256_unpackhi_epi8(a, b); }
inline Vector Pack(Vector a, Vector b) { return _mm256_packus_epi32(a, b); }
inline Vector PackBytes(Vector a, Vector b) { return _mm256_packus_epi16(a, b); }
inline Vector PackBytes(Vector a) { return PackBytes(Pack(a, a), a); }
inline Vector Shuffle(Vector a, Vector pattern) { return _mm256_shuffle_epi8(a, pattern); }
inline Vector Pattern(char a, char b, char c, char d, char e, char f, char g, char h) {
  return _mm256_broadcastsi128_si256(
      _mm_setr_epi8(a, -1, b, -1, c, -1, d, -1, e, -1, f, -1, g, -1, h, -1));
}
inline Vector Load(const uint8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
inline void Store(Vector a, uint8_t* to) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), a); }
inline Vector LoadLanes(const uint8_t* from, size_t stride, const size_t* lanes) {
  return _mm256_loadu2_m128i(reinterpret_cast<const __m128i*>(from + lanes[1] * stride),
                             reinterpret_cast<const __m128i*>(from + lanes[0] * stride));
}
inline Vector LoadHalfLanes(const uint8_t* from, size_t stride, const size_t* lanes) {
  return _mm256_setr_m128i(
      _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + lanes[0] * stride)),
      _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + lanes[1] * stride)));
}
inline void StoreLanes(Vector a, uint8_t* to, size_t stride, const size_t* lanes) {
  const int pixels[] = {_mm_cvtsi128_si32(_mm256_castsi256_si128(a)),
                        _mm_cvtsi128_si32(_mm256_extracti128_si256(a, 1))};
  std::memcpy(to + lanes[0] * stride, &pixels[0], sizeof pixels[0]);
  std::memcpy(to + lanes[1] * stride, &pixels[1], sizeof pixels[1]);
}

#include "data_loader/kernels.inc"

}  // namespace v3
#pragma GCC pop_options

std::span<const Kernels> AvailableKernels() {
  static constexpr Kernels kAll[] = {
      {"v2", v2::Across, v2::Down},
      {"v3", v3::Across, v3::Down},
  };
  static const size_t available = __builtin_cpu_supports("avx2") ? 2 : 1;
  return {kAll, available};
}

}  // namespace hpu::data_loader
