// Products whose rows or terms belong to groups (synEmulatorGroupedMatmulParams).
#include <algorithm>

#include "graph_compiler/import/guid_table.h"
#include "graph_compiler/import/importer.h"
#include "synapse/include/synapse_emulator.h"

namespace hpu::graph_compiler {
namespace {

enum : size_t { kA, kEnds, kFirstB };

absl::StatusOr<bool> HasInnerGroups(const NodeDesc& node) {
  synEmulatorGroupedMatmulParams params{};
  if (!ReadParams(node, &params)) return InvalidArgument("parameters are missing");
  return params.innerGroups != 0;
}

absl::StatusOr<std::vector<Sizes>> InferGroupedMatmul(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, std::max<size_t>(kFirstB + 1, context.node.inputs.size())));
  ASSIGN_OR_RETURN(const bool inner, HasInnerGroups(context.node));
  const Sizes& a = context.Input(kA);
  const Sizes& ends = context.Input(kEnds);
  const Sizes& b = context.Input(kFirstB);
  const size_t matrices = context.node.inputs.size() - kFirstB;
  const bool stacked = b.size() == 3;
  if (a.size() != 2 || ends.size() != 1 || (b.size() != 2 && (inner || !stacked))) {
    return InvalidArgument("product of groups of ", SizesText(a), " with ", SizesText(b), ", ends ",
                           SizesText(ends));
  }
  if (b[1] != a[0]) return InvalidArgument("inner sizes ", a[0], " and ", b[1], " differ");
  for (size_t i = 1; i < matrices; ++i) {
    const Sizes& other = context.Input(kFirstB + i);
    if (other != b) return InvalidArgument("matrices ", SizesText(b), " and ", SizesText(other));
  }
  const uint64_t groups = inner ? ends[0] : stacked ? b[2] : matrices;
  if (groups != ends[0] || ((inner || stacked) && matrices != 1)) {
    return InvalidArgument("ends of ", ends[0], " groups for ", matrices, " x ", SizesText(b));
  }
  if (inner) return std::vector<Sizes>{{b[0], a[1], ends[0]}};
  return std::vector<Sizes>{{b[0], a[1]}};
}

// Returns whether kernels cannot address the matrix: strides that go back, or groups that share
// one.
bool NeedsCopy(const View& view) {
  return std::ranges::any_of(view.strides, [](int64_t stride) { return stride < 0; }) ||
         (view.shape.size() == 3 && view.shape[0] > 1 && view.strides[0] == 0);
}

absl::Status ImportGroupedMatmul(Importer& im) {
  ASSIGN_OR_RETURN(const bool inner, HasInnerGroups(im.node()));
  GroupedGemm gemm{im.Input(kA), im.Input(kEnds), {}, inner};
  RETURN_IF_ERROR(CheckFactor(gemm.a, "first operand"));
  bool alike = true;
  for (size_t i = kFirstB; i < im.node().inputs.size(); ++i) {
    gemm.b.push_back(im.Input(i));
    const View& b = gemm.b.back();
    RETURN_IF_ERROR(CheckFactor(b, "matrix"));
    if (b.type != gemm.b[0].type) return Unimplemented("matrices of several types");
    alike = alike && b.strides == gemm.b[0].strides;
  }
  if (gemm.ends.type != MemoryType::kI32) {
    return Unimplemented("ends of ", TypeName(gemm.ends.type), " elements where i32 is wanted");
  }
  if (gemm.ends.shape[0] == 0 || gemm.a.shape[1] == 0) {
    return Unimplemented("a product of groups without groups or without inner elements");
  }
  const View out = im.OutputValue(0);
  if (NumElements(out.shape) == 0) return absl::OkStatus();
  if (gemm.ends.strides[0] != 1) gemm.ends = im.Contiguous(gemm.ends);
  if (NeedsCopy(gemm.a)) gemm.a = im.Contiguous(gemm.a);
  if (!alike || NeedsCopy(gemm.b[0])) {
    for (View& b : gemm.b) b = im.Contiguous(b);
  }
  im.AddContraction(std::move(gemm), out);
  return absl::OkStatus();
}

const GuidRow kGroupedRows[] = {
    {"matmul_grouped_fwd", InferGroupedMatmul, ImportGroupedMatmul, true},
};

}  // namespace

std::span<const GuidRow> GroupedRows() { return kGroupedRows; }

}  // namespace hpu::graph_compiler
