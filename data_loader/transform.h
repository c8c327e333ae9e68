// One image is decoded, cut and resized in stages, and normalised.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "data_loader/kernels.h"
#include "data_loader/pixels.h"
#include "data_loader/resize.h"

namespace hpu::data_loader {

// Cuts `source` out of the image, resizes it to `size`, and keeps `window` of that. Where the
// window reaches beyond, the image is black.
struct Stage {
  Box source;
  Size size;
  Box window;
};

struct Plan {
  std::vector<Stage> stages;  // at least one
  bool flip = false;          // left to right, at the end
};

// An image is the bytes of a JPEG file or, if `pixels` is there, RGB pixels without padding.
struct Image {
  std::span<const uint8_t> bytes;
  bool is_jpeg = true;
  Size size;
};

struct Settings {
  bool scaled_decoding = true;
  // Pillow 13 resizes columns first where the height shrinks by more than twice as many pixels as
  // the width. Earlier ones never do.
  bool tall_first = true;
  Filter filter = Filter::kBilinear;
  const Kernels* kernels = nullptr;
};

// Memory that a thread uses for one image after the other.
struct Workspace {
  Pixels decoded;
  Pixels between;
  Pixels results[2];
};

// INVALID_ARGUMENT: the plan does not fit the image. The result is in `workspace` and not yet
// flipped.
absl::StatusOr<const Pixels*> RunStages(const Image& image, const Plan& plan,
                                        const Settings& settings, Workspace& workspace);

// This says how pixels are written. The table has 3 x 256 elements of one, two or four bytes: value
// v of channel c becomes element 256 * c + v.
struct Form {
  std::vector<uint8_t> table;
  bool interleaved = false;  // [height, width, 3] in place of [3, height, width]
  bool bgr = false;          // channel 0 is blue

  size_t element_bytes() const { return table.size() / (size_t{3} * 256); }
};

// Writes all pixels. `to` must be aligned for the elements.
void WriteElements(const Pixels& pixels, bool flip, const Form& form, uint8_t* to);

// The scale at which the source of a stage is decoded.
int DecodingScale(const Stage& stage);

}  // namespace hpu::data_loader
