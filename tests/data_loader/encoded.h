// JPEG files for tests, made in memory.
#pragma once

#include <string>

#include "data_loader/pixels.h"

namespace hpu::data_loader {

// An image of smooth colours. 4:2:0, or grey.
std::string EncodedImage(Size size, bool progressive = false, bool grey = false);

}  // namespace hpu::data_loader
