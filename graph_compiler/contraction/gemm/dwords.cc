#include "graph_compiler/contraction/gemm/dwords.h"

#include <algorithm>

#include "graph_compiler/contraction/tiles/amx_tiles.h"

namespace hpu::graph_compiler {
namespace {

bool LiesInDwords(const MatrixAccess& a, int64_t per_dword) {
  const bool aligned = a.type != MemoryType::kU8 || a.buffer.offset % 4 == 0;
  return MemoryTypeSize(a.type) * per_dword == 4 && aligned && a.col_stride == 1 &&
         a.row_stride % per_dword == 0 &&
         std::all_of(a.batch_strides.begin(), a.batch_strides.end(),
                     [&](int64_t stride) { return stride % per_dword == 0; });
}

}  // namespace

DwordsOfA ReadInDwords(const TargetInfo& target, const MatrixAccess& a, int64_t k, int64_t n,
                       int64_t per_dword) {
  DwordsOfA result;
  result.per_dword = per_dword;
  const int64_t dwords = CeilDiv(k, per_dword);
  result.in_place = LiesInDwords(a, per_dword) && k % per_dword == 0;
  if (target.amx_bf16) {
    // A remainder of k is filled up with zeros where A is copied.
    const int filled_up = AmxDepthFilledUp(dwords);
    result.in_place &= AmxDepth(dwords) > 0 || filled_up == 0 || n < kRowsWorthStaging;
    result.amx_depth = result.in_place ? AmxDepth(dwords) : filled_up;
  }
  result.filled_k = RoundUp(k, per_dword * std::max(1, result.amx_depth));
  return result;
}

void CountDwords(MatrixAccess& a, int64_t per_dword) {
  a.row_stride /= per_dword;
  for (int64_t& stride : a.batch_strides) stride /= per_dword;
}

}  // namespace hpu::graph_compiler
