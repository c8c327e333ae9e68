// Products whose rows or terms belong to groups.
#include <algorithm>

#include "graph_compiler/import/guid_table.h"
#include "graph_compiler/import/importer.h"

namespace hpu::graph_compiler {
namespace {

enum : size_t { kA, kB, kEnds };

// Inputs are a [K, M], b [N, K, groups], or [N, K] if groups are ranges of K, and ends [groups].
absl::StatusOr<std::vector<Sizes>> InferGroupedMatmul(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 3));
  const Sizes& a = context.Input(kA);
  const Sizes& b = context.Input(kB);
  const Sizes& ends = context.Input(kEnds);
  const bool inner = b.size() == 2;
  if (a.size() != 2 || (!inner && b.size() != 3) || ends.size() != 1) {
    return InvalidArgument("product of groups of ", SizesText(a), " with ", SizesText(b), ", ends ",
                           SizesText(ends));
  }
  if (b[1] != a[0]) return InvalidArgument("inner sizes ", a[0], " and ", b[1], " differ");
  if (inner) return std::vector<Sizes>{{b[0], a[1], ends[0]}};
  if (b[2] != ends[0]) {
    return InvalidArgument("ends of ", ends[0], " groups for ", b[2], " matrices");
  }
  return std::vector<Sizes>{{b[0], a[1]}};
}

bool HasNegativeStride(const View& view) {
  return std::ranges::any_of(view.strides, [](int64_t stride) { return stride < 0; });
}

absl::Status ImportGroupedMatmul(Importer& im) {
  GroupedGemm gemm{im.Input(kA), im.Input(kB), im.Input(kEnds)};
  RETURN_IF_ERROR(CheckFactor(gemm.a, "first operand"));
  RETURN_IF_ERROR(CheckFactor(gemm.b, "second operand"));
  if (gemm.ends.type != MemoryType::kI32) {
    return Unimplemented("ends of ", TypeName(gemm.ends.type), " elements where i32 is wanted");
  }
  if (gemm.ends.shape[0] == 0 || gemm.a.shape[1] == 0) {
    return Unimplemented("a product of groups without groups or without inner elements");
  }
  const View out = im.OutputValue(0);
  if (NumElements(out.shape) == 0) return absl::OkStatus();
  if (gemm.ends.strides[0] != 1) gemm.ends = im.Contiguous(gemm.ends);
  if (HasNegativeStride(gemm.a)) gemm.a = im.Contiguous(gemm.a);
  if (HasNegativeStride(gemm.b)) gemm.b = im.Contiguous(gemm.b);
  im.AddContraction(std::move(gemm), out);
  return absl::OkStatus();
}

const GuidRow kGroupedRows[] = {
    {"matmul_grouped_fwd", InferGroupedMatmul, ImportGroupedMatmul, true},
};

}  // namespace

std::span<const GuidRow> GroupedRows() { return kGroupedRows; }

}  // namespace hpu::graph_compiler
