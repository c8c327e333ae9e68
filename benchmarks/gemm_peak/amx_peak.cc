#include "benchmarks/gemm_peak/amx_peak.h"

#include <immintrin.h>

#include <cstdint>

namespace hpu::graph_compiler {
namespace {

constexpr int kTileRows = 16;
constexpr int kTileRowBytes = 64;
constexpr int kProductsPerStep = 4;  // independent sums hide the latency
constexpr int kSteps = 1 << 15;

// Palette 1: eight tiles of 16 rows of 64 bytes (LDTILECFG).
struct alignas(64) TileConfiguration {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfiguration) == 64);

}  // namespace

__attribute__((target("amx-tile,amx-bf16"))) double RunAmxBf16(int repeat) {
  TileConfiguration configuration;
  for (int i = 0; i < 8; ++i) {
    configuration.row_bytes[i] = kTileRowBytes;
    configuration.rows[i] = kTileRows;
  }
  _tile_loadconfig(&configuration);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  for (int i = 0; i < repeat * kSteps; ++i) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 5);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_release();
  // A product of tiles: 16 x 16 sums of 32 products.
  return 2.0 * 16 * 16 * 32 * kProductsPerStep * kSteps * repeat;
}

}  // namespace hpu::graph_compiler
