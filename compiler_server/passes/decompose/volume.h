// Windows over volumes as windows over images: what a window sees along the depth are further
// channels of an image, and an image's sums over them go back to their depths.
#pragma once

#include "compiler_server/passes/decompose/conv_window.h"

namespace hpu::compiler {

// A convolution's window along the depth.
struct DepthWindow {
  int64_t kernel, stride, dilation, low, high;
  int64_t groups;  // of channels; a group's are side by side, by tap

  int64_t Outputs(int64_t depth) const {
    return (depth + low + high - dilation * (kernel - 1) - 1) / stride + 1;
  }
};

// Takes the first spatial dimension out of a window of three.
DepthWindow TakeDepth(ConvWindow& window, int64_t kernel);

// [N, D, H, W, C] -> [N * outputs, H, W, kernel * C]
Value* DepthToChannels(Call& call, Value* x, const DepthWindow& depth);
// The way back, which sums what came from one element: [N * outputs, H, W, kernel * C] -> `sizes`,
// [N, D, H, W, C].
Value* ChannelsToDepth(Call& call, Value* y, const DepthWindow& depth, const Dims& sizes);

// [N, D, H, W, C] as images, and images as that.
Value* Images(Call& call, Value* x);
Value* Volumes(Call& call, Value* images, int64_t batch);

// [K, C / groups, D, R, S] -> [R, S, D * C / groups, K], and back to `sizes`, which are the former.
Value* PlaneWeight(Call& call, Value* weight);
Value* VolumeWeight(Call& call, Value* plane, const Dims& sizes);

}  // namespace hpu::compiler
