// Resizing as Pillow's Image.resize(size, filter) does it: a filter that grows with the
// reduction, weights of 22 bits, first along rows, then along columns or (down_first) in the other
// order, with 8 bits between the two.
#pragma once

#include <cstdint>
#include <vector>

#include "data_loader/kernels.h"
#include "data_loader/pixels.h"

namespace hpu::data_loader {

enum class Filter : uint8_t { kNearest, kBox, kBilinear, kBicubic, kLanczos };

// A range of source positions [begin, end), which may begin within a pixel, becomes `size` results.
// No source position outside of [low, high) is read. Of the results only those of the window are
// computed, which must lie within them.
struct AxisRange {
  double begin = 0;
  double end = 0;
  int low = 0;
  int high = 0;
  int size = 0;
  int window_begin = 0;
  int window_size = 0;
  Filter filter = Filter::kBilinear;
};

struct Axis {
  // For each result of the window: its first source position, and the weights of `taps` positions
  // from there on, some of which are 0 where it has fewer.
  std::vector<int32_t> first;
  std::vector<WeightPair> weights;
  int taps = 0;
  // The source positions that have weights.
  int source_begin = 0;
  int source_end = 0;
  // Every result is one source position, and the next result is the next position.
  bool copies = false;

  int pairs() const { return (taps + 1) / 2; }
  // Counts source positions from `origin` from now on.
  void MoveOrigin(int origin);
};

Axis MakeAxis(const AxisRange& range);

// Writes the window of the two axes into `target` at column x and row y, and anything into the
// three pixels that follow each row of the window. `between` holds the result of the first pass.
void Resize(const Pixels& source, const Axis& columns, const Axis& rows, bool down_first,
            const Kernels& kernels, Pixels& between, Pixels& target, int x, int y);

}  // namespace hpu::data_loader
