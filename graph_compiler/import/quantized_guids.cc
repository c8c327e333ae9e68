// Products with quantised weights.
#include <algorithm>

#include "graph_compiler/import/guid_table.h"
#include "graph_compiler/import/importer.h"

namespace hpu::graph_compiler {
namespace {

enum : size_t { kX, kWeights, kScale, kZero };

// Inputs are x [K, M], weights i8 [K, N] or u8 [half, K, N / (2 half)], and scale and zero [N, K /
// group].
absl::StatusOr<std::vector<Sizes>> InferQuantizedMatmul(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 2));
  const Sizes& x = context.Input(kX);
  const Sizes& weights = context.Input(kWeights);
  if (x.size() != 2 || (weights.size() != 2 && weights.size() != 3)) {
    return InvalidArgument("quantized product of ", SizesText(x), " with ", SizesText(weights));
  }
  const bool blocks = weights.size() == 3;
  const uint64_t n = blocks ? 2 * weights[0] * weights[2] : weights[1];
  if (weights[blocks ? 1 : 0] != x[0]) {
    return InvalidArgument("weights ", SizesText(weights), " do not fit x ", SizesText(x));
  }
  for (const size_t factor : {kScale, kZero}) {
    if (!context.HasInput(factor)) continue;
    const Sizes& sizes = context.Input(factor);
    if (sizes.size() != 2 || sizes[0] != n || sizes[1] == 0 || x[0] % sizes[1] != 0 ||
        !context.HasInput(kScale) || sizes != context.Input(kScale)) {
      return InvalidArgument(factor == kScale ? "scale " : "zero ", SizesText(sizes), " for ", x[0],
                             " x ", n, " weights");
    }
  }
  return std::vector<Sizes>{{n, x[1]}};
}

absl::Status ImportQuantizedMatmul(Importer& im) {
  constexpr int64_t kHalves[] = {16, 32};
  QuantizedGemm gemm{im.Input(kX), im.Input(kWeights), std::nullopt, std::nullopt};
  RETURN_IF_ERROR(CheckFactor(gemm.x, "x"));
  if (im.HasInput(kScale)) {
    gemm.scale = im.Input(kScale);
    RETURN_IF_ERROR(CheckFactor(*gemm.scale, "scale"));
  }
  if (im.HasInput(kZero)) {
    gemm.zero = im.Input(kZero);
    RETURN_IF_ERROR(CheckFactor(*gemm.zero, "zero"));
  }
  View& weights = gemm.weights;
  const bool blocks = weights.shape.size() == 3;
  const MemoryType wanted = blocks ? MemoryType::kU8 : MemoryType::kI8;
  if (weights.type != wanted) {
    return Unimplemented("weights of ", TypeName(weights.type), " elements where ",
                         TypeName(wanted), " is wanted");
  }
  if (blocks && std::ranges::find(kHalves, weights.shape[2]) == std::end(kHalves)) {
    return Unimplemented("blocks of ", 2 * weights.shape[2], " columns of 4 bits, not 32 or 64");
  }
  if (gemm.x.shape[1] == 0) return Unimplemented("a quantized product without inner elements");
  const View out = im.OutputValue(0);
  if (NumElements(out.shape) == 0) return absl::OkStatus();
  const size_t last = weights.shape.size() - 1;
  const bool dense_k = !blocks || weights.strides[1] == weights.shape[2];
  if (weights.strides[last] != 1 || !dense_k || weights.strides[0] < 0) {
    weights = im.Contiguous(weights);
  }
  im.AddContraction(std::move(gemm), out);
  return absl::OkStatus();
}

const GuidRow kQuantizedRows[] = {
    {"matmul_quantized_fwd", InferQuantizedMatmul, ImportQuantizedMatmul, true},
};

}  // namespace

std::span<const GuidRow> QuantizedRows() { return kQuantizedRows; }

}  // namespace hpu::graph_compiler
