// The outputs first, first + stride, first + 2 * stride ... of a dimension meet the same taps of
// the kernel, so each such phase is a convolution of stride 1 by every n-th tap in reverse. No
// product with a zero is calculated, and every output is written once.
#include "graph_compiler/import/transposed_conv.h"

#include <algorithm>
#include <numeric>

#include "graph_compiler/import/importer.h"

namespace hpu::graph_compiler {
namespace {

// Every phase is a kernel of its own, so their number is limited.
constexpr int64_t kMostKernels = 64;

// The forward convolution along one dimension.
struct KernelWindow {
  int64_t kernel, stride, dilation, pad;
};

// Describes the outputs first, first + stride, ... along one dimension. Output q of the phase is
// the sum over taps t of input[q - pad + t * dilation] * weight[first_tap + t * tap_step].
struct Phase {
  int64_t first = 0, outputs = 0;
  int64_t taps = 0, first_tap = 0, tap_step = 0, dilation = 1, pad = 0;
};

// In the forward convolution, input i = first + q * stride meets kernel position k where i + pad -
// k * dilation is a multiple of the stride; that multiple is the output's place. From one such k to
// the next the step is stride / g, with g the greatest common divisor of stride and dilation, and
// the place falls by dilation / g.
Phase PhaseOf(int64_t first, int64_t size, const KernelWindow& window) {
  const int64_t divisor = std::gcd(window.stride, window.dilation);
  const int64_t step = window.stride / divisor;
  Phase phase;
  phase.first = first;
  phase.outputs = first < size ? (size - 1 - first) / window.stride + 1 : 0;
  phase.dilation = window.dilation / divisor;
  const auto place = [&](int64_t k) { return first + window.pad - k * window.dilation; };
  int64_t k = 0;
  while (k < std::min(window.kernel, step) && place(k) % window.stride != 0) ++k;
  if (k >= std::min(window.kernel, step)) return phase;
  phase.taps = (window.kernel - 1 - k) / step + 1;
  phase.first_tap = k + (phase.taps - 1) * step;
  phase.tap_step = -step;
  phase.pad = (phase.taps - 1) * phase.dilation - place(k) / window.stride;
  return phase;
}

// Takes every step-th element of a dimension from `first` on.
void Slice(View& view, size_t dim, int64_t first, int64_t step, int64_t size) {
  view.offset += first * view.strides[dim];
  view.strides[dim] *= step;
  view.shape[dim] = size;
}

// Adds the convolution of one phase; dimensions 1 and 2 are height and width.
void AddPhase(Importer& im, View x, View w, View out, const Phase (&phases)[2],
              const KernelWindow (&windows)[2], int64_t groups) {
  bool empty = false;
  int64_t pads[2];
  for (size_t i = 0; i < 2; ++i) {
    const Phase& phase = phases[i];
    Slice(out, i + 1, phase.first, windows[i].stride, phase.outputs);
    const int64_t cut = std::max<int64_t>(0, -phase.pad);
    pads[i] = std::max<int64_t>(0, phase.pad);
    empty |= phase.taps == 0 || x.shape[i + 1] <= cut;
    if (empty) continue;
    Slice(x, i + 1, cut, 1, x.shape[i + 1] - cut);
    Slice(w, i + 2, phase.first_tap, phase.tap_step, phase.taps);
  }
  if (NumElements(out.shape) == 0) return;
  if (empty) {
    im.MapTo(out, {},
             [](BodyBuilder& body, const Args&) { return body.Const(ScalarType::kF32, 0); });
    return;
  }
  im.AddContraction(Conv{x,
                         w,
                         {.dilation_h = phases[0].dilation,
                          .dilation_w = phases[1].dilation,
                          .pad_top = pads[0],
                          .pad_left = pads[1],
                          .groups = groups,
                          .direct = im.node().deterministic}},
                    out);
}

// Returns (r, s, c / groups, k) as (c, k / groups, r, s). This is a copy where channels of both
// sides are in groups.
View ReversedWeight(Importer& im, int64_t groups) {
  const View& weight = im.Input(1);
  const Shape& shape = weight.shape;
  const int64_t inputs = shape[3] / groups, outputs = shape[2];
  const View apart = im.Reshape(weight, {shape[0], shape[1], outputs, groups, inputs});
  return im.Reshape(PermuteView(apart, {3, 2, 4, 0, 1}),
                    {groups * outputs, inputs, shape[0], shape[1]});
}

}  // namespace

absl::Status ImportTransposedConv(Importer& im, const synConvolutionParams& params) {
  const KernelWindow windows[2] = {{params.kH, params.dH, params.dilH, params.padT},
                                   {params.kW, params.dW, params.dilW, params.padL}};
  const int64_t kernels = int64_t{params.dH} * params.dW;
  if (kernels > kMostKernels) {
    return Unimplemented("transposed convolution of ", kernels, " phases, at most ", kMostKernels);
  }
  const View x = im.Input(0);
  if (x.shape[3] == 0) return Unimplemented("transposed convolution without input channels");
  const View out = im.OutputValue(0);
  const int64_t groups = params.nGroups;
  const View w = ReversedWeight(im, groups);
  for (int64_t h = 0; h < windows[0].stride; ++h) {
    for (int64_t width = 0; width < windows[1].stride; ++width) {
      const Phase phases[2] = {PhaseOf(h, out.shape[1], windows[0]),
                               PhaseOf(width, out.shape[2], windows[1])};
      AddPhase(im, x, w, out, phases, windows, groups);
    }
  }
  return absl::OkStatus();
}

}  // namespace hpu::graph_compiler
