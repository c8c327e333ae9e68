// Softmax becomes reductions and elementwise steps; fusion/row_groups puts the steps of each
// softmax back into a single kernel.

#include "graph_compiler/import/guid_table.h"
#include "graph_compiler/import/importer.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::graph_compiler {
namespace {

absl::StatusOr<size_t> SoftmaxDim(Importer& im, size_t rank) {
  int32_t dim = 0;
  ReadParams(im.node(), &dim);
  if (dim < 0 || static_cast<size_t>(dim) >= rank) {
    return InvalidArgument("softmax over axis ", dim, " of rank ", rank);
  }
  return FromFcdAxis(rank, dim);
}

View RowMaximum(Importer& im, const View& x, size_t dim) {
  return im.Reduce(ReduceKind::kMax, MemoryType::kF32, x.shape, {dim}, {x},
                   [](BodyBuilder&, const Args& a) { return Cast(a[0], kF32); });
}

absl::Status ImportSoftmax(Importer& im) {
  const View x = im.Input(0);
  ASSIGN_OR_RETURN(const size_t dim, SoftmaxDim(im, x.shape.size()));
  const View maximum = RowMaximum(im, x, dim);
  const View exponential = im.Map(MemoryType::kF32, x.shape, {x, maximum},
                                  [](BodyBuilder&, const Args& a) { return Exp(a[0] - a[1]); });
  const View sum =
      im.Reduce(ReduceKind::kSum, MemoryType::kF32, x.shape, {dim}, {exponential}, FirstArg);
  im.MapToOutput(0, {exponential, sum}, [](BodyBuilder&, const Args& a) {
    return a[0] * FloatFunction(Opcode::kReciprocal, a[1]);
  });
  return absl::OkStatus();
}

absl::Status ImportLogSoftmax(Importer& im) {
  const View x = im.Input(0);
  ASSIGN_OR_RETURN(const size_t dim, SoftmaxDim(im, x.shape.size()));
  const View maximum = RowMaximum(im, x, dim);
  const View sum = im.Reduce(ReduceKind::kSum, MemoryType::kF32, x.shape, {dim}, {x, maximum},
                             [](BodyBuilder&, const Args& a) { return Exp(a[0] - a[1]); });
  im.MapToOutput(0, {x, maximum, sum},
                 [](BodyBuilder&, const Args& a) { return a[0] - a[1] - Log(a[2]); });
  return absl::OkStatus();
}

absl::Status ImportSoftmaxBackward(Importer& im) {
  const bool is_log = im.guid_base() == "logsoftmax_bwd_data";
  const View y = im.Input(is_log ? 1 : 0);
  const View dy = im.Input(is_log ? 0 : 1);
  ASSIGN_OR_RETURN(const size_t dim, SoftmaxDim(im, y.shape.size()));
  const View sum = im.Reduce(
      ReduceKind::kSum, MemoryType::kF32, y.shape, {dim}, {y, dy},
      [&](BodyBuilder&, const Args& a) { return is_log ? Cast(a[1], kF32) : a[0] * a[1]; });
  im.MapToOutput(0, {y, dy, sum}, [&](BodyBuilder&, const Args& a) {
    return is_log ? a[1] - Exp(a[0]) * a[2] : a[0] * (a[1] - a[2]);
  });
  return absl::OkStatus();
}

const GuidRow kSoftmaxRows[] = {
    {"softmax_fwd", InferSameAsFirst, ImportSoftmax},
    {"logsoftmax_fwd", InferSameAsFirst, ImportLogSoftmax},
    {"softmax_bwd", InferSameAsFirst, ImportSoftmaxBackward},
    {"logsoftmax_bwd_data", InferSameAsFirst, ImportSoftmaxBackward},
};

}  // namespace

std::span<const GuidRow> SoftmaxRows() { return kSoftmaxRows; }

}  // namespace hpu::graph_compiler
