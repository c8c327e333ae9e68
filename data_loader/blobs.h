// Connected parts of volumes of labels, for crops that shall contain one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "data_loader/views.h"

namespace hpu::data_loader {

// [begin, end) of each axis, the slowest first.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};
using Cuboid = std::array<Range, 3>;

struct Blobs {
  uint8_t label = 0;
  // The cuboids around elements of the label that touch each other by faces, the largest first.
  std::vector<Cuboid> cuboids;
};

// For each label of a view of three axes of bytes, in the order of their values and without 0, the
// `most` largest ones.
std::vector<Blobs> FindBlobs(const View& labels, size_t most);

}  // namespace hpu::data_loader
