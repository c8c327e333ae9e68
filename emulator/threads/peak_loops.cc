#include "emulator/threads/peak_loops.h"

#include <immintrin.h>

namespace hpu::emulator {
namespace {

// The number of independent chains of multiply-adds. It is at least latency times units of any
// core, and twice that where there are enough registers, because 12 reach 94 % of what 24 do where
// pairs take 6 cycles.
constexpr int kChains = 12;
constexpr int kWideChains = 24;  // of 32 registers

// Factor and addend keep the sums finite for any number of rounds.
constexpr float kFactor = 0.5f;
constexpr float kAddend = 0.25f;

// The loops are written out for each width, because GCC does not inline one template into functions
// of other instruction sets.

__attribute__((target("avx512f"))) void F32V4(int64_t rounds) {
  const __m512 factor = _mm512_set1_ps(kFactor);
  const __m512 addend = _mm512_set1_ps(kAddend);
  __m512 chains[kWideChains];
  for (__m512& chain : chains) chain = addend;
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 24
    for (__m512& chain : chains) chain = _mm512_fmadd_ps(chain, factor, addend);
  }
  __m512 sum = addend;
  for (const __m512& chain : chains) sum = _mm512_add_ps(sum, chain);
  volatile float keep = _mm512_cvtss_f32(sum);
  static_cast<void>(keep);
}

__attribute__((target("avx2,fma"))) void F32V3(int64_t rounds) {
  const __m256 factor = _mm256_set1_ps(kFactor);
  const __m256 addend = _mm256_set1_ps(kAddend);
  __m256 chains[kChains];
  for (__m256& chain : chains) chain = addend;
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (__m256& chain : chains) chain = _mm256_fmadd_ps(chain, factor, addend);
  }
  __m256 sum = addend;
  for (const __m256& chain : chains) sum = _mm256_add_ps(sum, chain);
  volatile float keep = _mm256_cvtss_f32(sum);
  static_cast<void>(keep);
}

void F32V2(int64_t rounds) {
  const __m128 factor = _mm_set1_ps(kFactor);
  const __m128 addend = _mm_set1_ps(kAddend);
  __m128 chains[kChains];
  for (__m128& chain : chains) chain = addend;
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (__m128& chain : chains) chain = _mm_add_ps(_mm_mul_ps(chain, factor), addend);
  }
  __m128 sum = addend;
  for (const __m128& chain : chains) sum = _mm_add_ps(sum, chain);
  volatile float keep = _mm_cvtss_f32(sum);
  static_cast<void>(keep);
}

__attribute__((target("avx512f,avx512bf16"))) void Bf16Pairs(int64_t rounds) {
  const __m512bh factor = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3F00));  // halves
  __m512 chains[kWideChains];
  for (__m512& chain : chains) chain = _mm512_set1_ps(kAddend);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 24
    for (__m512& chain : chains) chain = _mm512_dpbf16_ps(chain, factor, factor);
  }
  __m512 sum = _mm512_set1_ps(kAddend);
  for (const __m512& chain : chains) sum = _mm512_add_ps(sum, chain);
  volatile float keep = _mm512_cvtss_f32(sum);
  static_cast<void>(keep);
}

constexpr int kTileRows = 16;
constexpr int kTileRowBytes = 64;
constexpr int kTileProducts = 4;  // independent sums hide the latency

// Palette 1: eight tiles of 16 rows of 64 bytes (LDTILECFG).
struct alignas(64) TileConfiguration {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfiguration) == 64);

constexpr TileConfiguration FullTiles() {
  TileConfiguration configuration;
  for (int i = 0; i < 8; ++i) {
    configuration.row_bytes[i] = kTileRowBytes;
    configuration.rows[i] = kTileRows;
  }
  return configuration;
}

// This is not on the stack: _tile_loadconfig declares to the compiler that it reads only eight of
// the 64 bytes, so stores to the others could be dropped.
constexpr TileConfiguration kFullTiles = FullTiles();

__attribute__((target("amx-tile,amx-bf16"))) void Bf16Tiles(int64_t rounds) {
  _tile_loadconfig(&kFullTiles);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  for (int64_t i = 0; i < rounds; ++i) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 5);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_release();
}

}  // namespace

PeakLoop F32PeakLoop(IsaLevel level) {
  if (level >= IsaLevel::kV4) return {&F32V4, 2.0 * kWideChains * 16, "AVX512"};
  if (level >= IsaLevel::kV3) return {&F32V3, 2.0 * kChains * 8, "AVX2"};
  return {&F32V2, 2.0 * kChains * 4, "SSE"};
}

PeakLoop Bf16PeakLoop(IsaLevel level) {
  // A product of tiles is 16 x 16 sums of 32 products.
  if (level >= IsaLevel::kV4Amx) return {&Bf16Tiles, 2.0 * kTileProducts * 16 * 16 * 32, "AMX"};
  if (level >= IsaLevel::kV4Bf16) return {&Bf16Pairs, 2.0 * kWideChains * 16 * 2, "AVX512_BF16"};
  PeakLoop widened = F32PeakLoop(level);
  widened.instructions = "f32";
  return widened;
}

}  // namespace hpu::emulator
