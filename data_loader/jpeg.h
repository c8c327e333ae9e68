// JPEG files by libjpeg-turbo, with the settings of Pillow, so that the same pixels come out.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "data_loader/pixels.h"

namespace hpu::data_loader {

// The size of an image from its header. An error means that this is no JPEG that is decoded here,
// or that it is damaged.
absl::StatusOr<Size> ReadJpegSize(std::span<const uint8_t> bytes);

// Decodes at 1/scale of the resolution (scale is 1, 2, 4 or 8) the part that contains `part`, which
// counts in pixels of that resolution. Grey and CMYK images become RGB as in Pillow's
// convert("RGB"). Returns the position of the first pixel of `pixels`: columns begin at a multiple
// of the blocks. The Huffman code of what lies below `part` is read only where the file has no end
// marker.
struct Origin {
  int x = 0;
  int y = 0;
};
absl::StatusOr<Origin> DecodeJpeg(std::span<const uint8_t> bytes, const Box& part, int scale,
                                  Pixels& pixels);

}  // namespace hpu::data_loader
