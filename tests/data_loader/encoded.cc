#include "tests/data_loader/encoded.h"

// clang-format off
#include <cstddef>
#include <cstdio>
#include <jpeglib.h>  // needs the two before it
// clang-format on

#include <cstdlib>
#include <vector>

namespace hpu::data_loader {

std::string EncodedImage(Size size, bool progressive, bool grey) {
  jpeg_compress_struct state{};
  jpeg_error_mgr errors{};
  state.err = jpeg_std_error(&errors);
  jpeg_create_compress(&state);
  unsigned char* bytes = nullptr;
  unsigned long count = 0;
  jpeg_mem_dest(&state, &bytes, &count);
  state.image_width = static_cast<JDIMENSION>(size.width);
  state.image_height = static_cast<JDIMENSION>(size.height);
  state.input_components = grey ? 1 : 3;
  state.in_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&state);
  if (progressive) jpeg_simple_progression(&state);
  jpeg_start_compress(&state, TRUE);
  std::vector<JSAMPLE> row(static_cast<size_t>(size.width) * state.input_components);
  while (state.next_scanline < state.image_height) {
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = static_cast<JSAMPLE>(i * (i % 3 + 1) + state.next_scanline * 2);
    }
    JSAMPROW rows = row.data();
    jpeg_write_scanlines(&state, &rows, 1);
  }
  jpeg_finish_compress(&state);
  jpeg_destroy_compress(&state);
  std::string result(reinterpret_cast<const char*>(bytes), count);
  std::free(bytes);
  return result;
}

}  // namespace hpu::data_loader
