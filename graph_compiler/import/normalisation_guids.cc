// The norms become reductions and elementwise steps; fusion/row_groups puts the steps of each norm
// back into a single kernel.
#include <algorithm>

#include "graph_compiler/import/guid_table.h"
#include "graph_compiler/import/importer.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::graph_compiler {
namespace {

using Dims = std::vector<size_t>;

struct Norm {
  View x;
  Dims dims;                     // these are normalised together
  const View* weight = nullptr;  // broadcastable to x
  const View* bias = nullptr;
  double epsilon = 1e-5;
  bool centre = true;  // false: RMS norm
};

struct Statistics {
  View mean;
  View inverse;  // 1 / standard deviation (or root mean square)
};

int64_t CountOf(const Norm& norm) {
  int64_t count = 1;
  for (const size_t dim : norm.dims) count *= norm.x.shape[dim];
  return count;
}

Statistics ImportStatistics(Importer& im, const Norm& norm) {
  const double scale = 1.0 / static_cast<double>(std::max<int64_t>(CountOf(norm), 1));
  Statistics result;
  std::vector<View> inputs = {norm.x};
  if (norm.centre) {
    const View sum =
        im.Reduce(ReduceKind::kSum, MemoryType::kF32, norm.x.shape, norm.dims, {norm.x},
                  [](BodyBuilder&, const Args& a) { return Cast(a[0], kF32); });
    result.mean = im.Map(MemoryType::kF32, sum.shape, {sum},
                         [&](BodyBuilder&, const Args& a) { return a[0] * scale; });
    inputs.push_back(result.mean);
  }
  const View squares = im.Reduce(ReduceKind::kSum, MemoryType::kF32, norm.x.shape, norm.dims,
                                 inputs, [&](BodyBuilder&, const Args& a) {
                                   const E x = Cast(a[0], kF32);
                                   const E centred = norm.centre ? x - a[1] : x;
                                   return centred * centred;
                                 });
  result.inverse =
      im.Map(MemoryType::kF32, squares.shape, {squares},
             [&](BodyBuilder&, const Args& a) { return Rsqrt(a[0] * scale + norm.epsilon); });
  return result;
}

void ImportNormalised(Importer& im, const Norm& norm, const Statistics& statistics,
                      const View& destination) {
  std::vector<View> inputs = {norm.x, statistics.inverse};
  if (norm.centre) inputs.push_back(statistics.mean);
  if (norm.weight != nullptr) inputs.push_back(*norm.weight);
  if (norm.bias != nullptr) inputs.push_back(*norm.bias);
  im.MapTo(destination, inputs, [&](BodyBuilder&, const Args& a) {
    size_t next = 2;
    E y = Cast(a[0], kF32);
    if (norm.centre) y = y - a[next++];
    y = y * a[1];
    if (norm.weight != nullptr) y = y * a[next++];
    if (norm.bias != nullptr) y = y + a[next];
    return y;
  });
}

void BindStatistic(Importer& im, size_t output, const View& value) {
  if (!im.HasOutput(output)) return;
  if (NumElements(im.OutputShape(output)) != NumElements(value.shape)) return;
  im.Bind(output, im.CastTo(im.Reshape(value, im.OutputShape(output)), im.OutputType(output)));
}

double Epsilon(const NodeDesc& node, double fallback) {
  ns_LayerNormKernel_Params params{};
  if (!ReadParams(node, &params)) return fallback;
  // One known client passes a 12-byte block that starts with the epsilon itself.
  if (node.params.size() == 12) {
    float epsilon = 0;
    std::memcpy(&epsilon, node.params.data(), 4);
    if (epsilon > 0 && epsilon < 1) return epsilon;
  }
  return params.epsValid != 0 || params.eps != 0 ? params.eps : fallback;
}

void FinishNorm(Importer& im, const Norm& norm) {
  const Statistics statistics = ImportStatistics(im, norm);
  ImportNormalised(im, norm, statistics, im.OutputValue(0, &norm.x.strides));
  if (norm.centre) {
    BindStatistic(im, 1, statistics.mean);
    BindStatistic(im, 2, statistics.inverse);
  } else {
    BindStatistic(im, 1, statistics.inverse);
  }
}

// Inputs are x, bias and weight. This normalises the fastest dimension, or the dimensions of
// NormAxisBmp.
absl::Status ImportLayerNorm(Importer& im) {
  Norm norm;
  norm.x = im.Input(0);
  const size_t rank = norm.x.shape.size();
  ns_LayerNormKernel_ParamsNorm params{};
  uint32_t mask = 1;
  if (ReadParams(im.node(), &params) && params.NormAxisBmp > 0) {
    mask = static_cast<uint32_t>(params.NormAxisBmp);
  }
  for (size_t d = 0; d < rank; ++d) {
    if ((mask >> (rank - 1 - d) & 1) != 0) norm.dims.push_back(d);
  }
  norm.epsilon = Epsilon(im.node(), 1e-5);
  if (im.HasInput(1)) norm.bias = &im.Input(1);
  if (im.HasInput(2)) norm.weight = &im.Input(2);
  FinishNorm(im, norm);
  return absl::OkStatus();
}

// Inputs are x, weight and bias. This normalises the last `normalizedShapeDims` dimensions.
absl::Status ImportLayerNormPt(Importer& im) {
  ns_LayerNormKernel_ParamsPt params{};
  if (!ReadParams(im.node(), &params)) return InvalidArgument("params are missing");
  Norm norm;
  norm.x = im.Input(0);
  const size_t rank = norm.x.shape.size();
  const size_t count = std::min<size_t>(params.normalizedShapeDims, rank);
  for (size_t d = rank - count; d < rank; ++d) norm.dims.push_back(d);
  norm.epsilon = params.eps;
  if (im.HasInput(1)) norm.weight = &im.Input(1);
  if (im.HasInput(2)) norm.bias = &im.Input(2);
  FinishNorm(im, norm);
  return absl::OkStatus();
}

absl::Status ImportRmsNorm(Importer& im) {
  Norm norm;
  norm.x = im.Input(0);
  norm.dims = {norm.x.shape.size() - 1};
  norm.centre = false;
  norm.epsilon = Epsilon(im.node(), 1e-6);
  if (im.HasInput(1)) norm.weight = &im.Input(1);
  FinishNorm(im, norm);
  return absl::OkStatus();
}

// Returns a per-channel vector as a view over x's shape, whose dimension 1 is the channel
// (PyTorch's N, C, ...).
View OverChannels(const View& vector, const Shape& shape, size_t dim) {
  View view = vector;
  view.shape.assign(shape.size(), 1);
  view.shape[dim] = NumElements(vector.shape);
  view.strides.assign(shape.size(), 0);
  view.strides[dim] = vector.strides.empty() ? 0 : vector.strides.back();
  return view;
}

size_t ChannelDim(const Shape& shape, const View& vector) {
  const int64_t channels = NumElements(vector.shape);
  return shape.size() > 1 && shape[1] == channels ? 1 : shape.size() - 1;
}

// Inputs are x, bias, weight, running mean and running variance.
absl::Status ImportBatchNormInference(Importer& im) {
  ns_BatchNormKernel_Params params{};
  if (!ReadParams(im.node(), &params)) return InvalidArgument("params are missing");
  for (size_t i = 0; i < 5; ++i) {
    if (!im.HasInput(i)) return InvalidArgument("input ", i, " is missing");
  }
  const View x = im.Input(0);
  const size_t dim = ChannelDim(x.shape, im.Input(1));
  std::vector<View> vectors;
  for (size_t i = 1; i < 5; ++i) vectors.push_back(OverChannels(im.Input(i), x.shape, dim));
  const View scale =
      im.Map(MemoryType::kF32, vectors[0].shape, {vectors[1], vectors[3]},
             [&](BodyBuilder&, const Args& a) { return a[0] * Rsqrt(a[1] + params.epsilon); });
  im.MapToOutput(0, {x, vectors[2], scale, vectors[0]}, [](BodyBuilder&, const Args& a) {
    return (Cast(a[0], kF32) - a[1]) * a[2] + a[3];
  });
  return absl::OkStatus();
}

// Inputs are x, bias, weight, running mean and running variance. Outputs are y, saved mean, saved
// inverse deviation, new running mean and new running variance.
absl::Status ImportBatchNormTraining(Importer& im) {
  ns_BatchNormKernel_ParamsV2 params{};
  if (!ReadParams(im.node(), &params)) return InvalidArgument("params are missing");
  Norm norm;
  norm.x = im.Input(0);
  const size_t rank = norm.x.shape.size();
  const size_t channel = ChannelDim(norm.x.shape, im.Input(1));
  for (size_t d = 0; d < rank; ++d) {
    if (d != channel) norm.dims.push_back(d);
  }
  norm.epsilon = params.epsilon;
  const View bias = OverChannels(im.Input(1), norm.x.shape, channel);
  const View weight = OverChannels(im.Input(2), norm.x.shape, channel);
  norm.bias = &bias;
  norm.weight = &weight;
  FinishNorm(im, norm);
  if (!im.HasOutput(3) || !im.HasInput(4)) return absl::OkStatus();
  const Statistics statistics = ImportStatistics(im, norm);
  const double momentum = params.momentum;
  const auto count = static_cast<double>(CountOf(norm));
  const View old_mean = OverChannels(im.Input(3), norm.x.shape, channel);
  const View old_variance = OverChannels(im.Input(4), norm.x.shape, channel);
  BindStatistic(
      im, 3,
      im.Map(MemoryType::kF32, old_mean.shape, {old_mean, statistics.mean},
             [&](BodyBuilder&, const Args& a) { return a[0] * (1 - momentum) + a[1] * momentum; }));
  BindStatistic(im, 4,
                im.Map(MemoryType::kF32, old_variance.shape, {old_variance, statistics.inverse},
                       [&](BodyBuilder&, const Args& a) {
                         const E variance = 1.0 / (a[1] * a[1]) - norm.epsilon;
                         const double unbiased = count / std::max(count - 1, 1.0);
                         return a[0] * (1 - momentum) + variance * (momentum * unbiased);
                       }));
  return absl::OkStatus();
}

// x (N, C, ...) is viewed as (N, G, C / G, ...): each group is normalised together with its spatial
// dimensions.
absl::Status ImportGroupNorm(Importer& im) {
  ns_NativeGroupNorm_Params params{};
  if (!ReadParams(im.node(), &params)) return InvalidArgument("params are missing");
  const View x = im.Input(0);
  const auto groups = static_cast<int64_t>(params.G);
  if (x.shape.size() < 2 || groups <= 0 || x.shape[1] % groups != 0) {
    return InvalidArgument("group norm with ", groups, " groups of rank ", x.shape.size());
  }
  Shape grouped = x.shape;
  grouped[1] = groups;
  grouped.insert(grouped.begin() + 2, x.shape[1] / groups);
  Norm norm;
  norm.x = im.Reshape(x, grouped);
  for (size_t d = 2; d < grouped.size(); ++d) norm.dims.push_back(d);
  norm.epsilon = params.epsilon;
  Shape parameter_shape(grouped.size(), 1);
  parameter_shape[1] = grouped[1];
  parameter_shape[2] = grouped[2];
  View weight;
  View bias;
  if (im.HasInput(1)) {
    weight = im.Reshape(im.Input(1), parameter_shape);
    norm.weight = &weight;
  }
  if (im.HasInput(2)) {
    bias = im.Reshape(im.Input(2), parameter_shape);
    norm.bias = &bias;
  }
  const Statistics statistics = ImportStatistics(im, norm);
  View out = im.OutputValue(0, &x.strides);
  ReshapeView(out, grouped, &out);
  ImportNormalised(im, norm, statistics, out);
  BindStatistic(im, 1, statistics.mean);
  BindStatistic(im, 2, statistics.inverse);
  return absl::OkStatus();
}

absl::Status ImportInstanceNorm(Importer& im) {
  ns_InstanceNormTrainingKernel_Params params{};
  if (!ReadParams(im.node(), &params)) return InvalidArgument("params are missing");
  Norm norm;
  norm.x = im.Input(0);
  for (size_t d = 2; d < norm.x.shape.size(); ++d) norm.dims.push_back(d);
  norm.epsilon = params.eps;
  View bias;
  View weight;
  if (im.HasInput(1)) {
    bias = OverChannels(im.Input(1), norm.x.shape, 1);
    norm.bias = &bias;
  }
  if (im.HasInput(2)) {
    weight = OverChannels(im.Input(2), norm.x.shape, 1);
    norm.weight = &weight;
  }
  FinishNorm(im, norm);
  return absl::OkStatus();
}

// y has the sizes of x; the statistics have 1 where x is normalised (dims counted from the
// fastest).
std::vector<Sizes> NormSizes(const ShapeContext& context, const Sizes& statistics) {
  std::vector<Sizes> sizes(context.node.outputs.size(), statistics);
  sizes[0] = context.Input(0);
  return sizes;
}

absl::StatusOr<std::vector<Sizes>> InferLayerNorm(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 1));
  Sizes statistics = context.Input(0);
  if (!statistics.empty()) statistics[0] = 1;
  return NormSizes(context, statistics);
}

absl::StatusOr<std::vector<Sizes>> InferLayerNormPt(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 1));
  ns_LayerNormKernel_ParamsPt params{};
  ReadParams(context.node, &params);
  Sizes statistics = context.Input(0);
  for (size_t i = 0; i < statistics.size() && i < params.normalizedShapeDims; ++i)
    statistics[i] = 1;
  return NormSizes(context, statistics);
}

absl::StatusOr<std::vector<Sizes>> InferBatchNorm(const ShapeContext& context) {
  if (!context.HasInput(1)) return InvalidArgument("input 1 is missing");
  return NormSizes(context, context.Input(1));
}

absl::StatusOr<std::vector<Sizes>> InferGroupNorm(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 1));
  ns_NativeGroupNorm_Params params{};
  ReadParams(context.node, &params);
  return NormSizes(context, {params.G, context.Input(0).back()});
}

absl::StatusOr<std::vector<Sizes>> InferInstanceNorm(const ShapeContext& context) {
  if (!context.HasInput(0) || context.Input(0).size() < 3) {
    return InvalidArgument("instance norm needs a tensor of rank 3 or more");
  }
  const Sizes& x = context.Input(0);
  return NormSizes(context, {x[x.size() - 2], x[x.size() - 1]});
}

const GuidRow kNormalisationRows[] = {
    {"layer_norm_fwd", InferLayerNorm, ImportLayerNorm},
    {"layer_norm_fwd_pt", InferLayerNormPt, ImportLayerNormPt},
    {"rms_norm_fwd", InferLayerNorm, ImportRmsNorm},
    {"rms_norm_ex_fwd", InferLayerNorm, ImportRmsNorm},
    {"rms_norm_fast_fwd", InferLayerNorm, ImportRmsNorm},
    {"batch_norm_inf", InferSameAsFirst, ImportBatchNormInference},
    {"batch_norm_inf_reshape", InferSameAsFirst, ImportBatchNormInference},
    {"batch_norm_fwd", InferBatchNorm, ImportBatchNormTraining},
    {"native_group_norm_fwd", InferGroupNorm, ImportGroupNorm},
    {"instance_norm_fwd", InferInstanceNorm, ImportInstanceNorm},
};

}  // namespace

std::span<const GuidRow> NormalisationRows() { return kNormalisationRows; }

}  // namespace hpu::graph_compiler
