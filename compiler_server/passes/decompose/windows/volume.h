// Windows over volumes, expressed as windows over images. The depths that a window covers become
// additional channels of an image. On the way back, the channels are summed into the depths that
// they came from.
#pragma once

#include "compiler_server/passes/decompose/windows/conv_window.h"

namespace hpu::compiler {

// The depth dimension of a convolution's window.
struct DepthWindow {
  int64_t kernel, stride, dilation, low, high;
  int64_t groups;  // of channels; those of a group are adjacent, ordered by tap

  int64_t Outputs(int64_t depth) const {
    return (depth + low + high - dilation * (kernel - 1) - 1) / stride + 1;
  }
};

// Removes the first of three spatial dimensions from the window and returns it.
DepthWindow TakeDepth(ConvWindow& window, int64_t kernel);

// Transforms [N, D, H, W, C] to [N * outputs, H, W, kernel * C].
Value* DepthToChannels(Call& call, Value* x, const DepthWindow& depth);
// Transforms [N * outputs, H, W, kernel * C] back to `sizes`, which are [N, D, H, W, C]. Channels
// that came from the same element are summed.
Value* ChannelsToDepth(Call& call, Value* y, const DepthWindow& depth, const Dims& sizes);

// Images returns [N, D, H, W, C] as images, and Volumes returns images as [N, D, H, W, C].
Value* Images(Call& call, Value* x);
Value* Volumes(Call& call, Value* images, int64_t batch);

// PlaneWeight transforms [K, C / groups, D, R, S] to [R, S, D * C / groups, K]. VolumeWeight
// transforms it back to `sizes`, which are the original ones.
Value* PlaneWeight(Call& call, Value* weight);
Value* VolumeWeight(Call& call, Value* plane, const Dims& sizes);

}  // namespace hpu::compiler
