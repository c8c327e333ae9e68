#include "data_loader/jpeg.h"

// clang-format off
#include <cstddef>
#include <cstdio>
#include <jpeglib.h>  // needs the two before it
#include <jerror.h>
// clang-format on

#include <algorithm>
#include <csetjmp>
#include <vector>

namespace hpu::data_loader {
namespace {

// Pillow refuses larger images (Image.MAX_IMAGE_PIXELS, twice).
constexpr int64_t kMostPixels = 2 * (int64_t{1024} * 1024 * 1024 / 4 / 3);
// Upsampling of colours looks this many columns beyond its own.
constexpr int kMarginColumns = 2;
constexpr int kRowsAtOnce = 16;

// libjpeg leaves by longjmp, so frames between Run and an error have nothing to destroy.
class Decompressor {
 public:
  explicit Decompressor(std::span<const uint8_t> bytes) : bytes_(bytes) {
    state_.err = jpeg_std_error(&errors_);
    errors_.error_exit = Leave;
    errors_.emit_message = Emit;
    state_.client_data = this;
  }
  ~Decompressor() { jpeg_destroy_decompress(&state_); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  jpeg_decompress_struct& state() { return state_; }

  absl::Status ReadHeader() {
    return Run([this] {
      jpeg_create_decompress(&state_);
      // jpeg_create_decompress clears everything but `err` and `client_data`.
      jpeg_mem_src(&state_, bytes_.data(), bytes_.size());
      jpeg_read_header(&state_, TRUE);
    });
  }

  // Whether the file has an end marker behind its header. Entropy-coded data has none inside.
  bool HasEnd() const {
    const size_t header = bytes_.size() - state_.src->bytes_in_buffer;
    for (size_t i = bytes_.size(); i >= header + 2; --i) {
      if (bytes_[i - 2] == 0xFF && bytes_[i - 1] == JPEG_EOI) return true;
    }
    return false;
  }

  template <typename Calls>
  absl::Status Run(const Calls& calls) {
    if (setjmp(jump_) != 0) return DataLoss(message_);
    calls();
    return absl::OkStatus();
  }

 private:
  [[noreturn]] static void Leave(j_common_ptr state) {
    auto& self = *static_cast<Decompressor*>(state->client_data);
    self.errors_.format_message(state, self.message_);
    std::longjmp(self.jump_, 1);
  }

  // Pillow goes on after every warning, but not after the end of the file.
  static void Emit(j_common_ptr state, int /*level*/) {
    if (state->err->msg_code != JWRN_JPEG_EOF) return;
    auto& self = *static_cast<Decompressor*>(state->client_data);
    std::snprintf(self.message_, sizeof self.message_, "the file ends too early, after %zu bytes",
                  self.bytes_.size());
    std::longjmp(self.jump_, 1);
  }

  std::span<const uint8_t> bytes_;
  jpeg_decompress_struct state_{};
  jpeg_error_mgr errors_{};
  std::jmp_buf jump_{};
  char message_[JMSG_LENGTH_MAX] = {};
};

// Returns what Pillow computes for a * b / 255.
int Product255(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

// CMYK values of JPEG files are taken as inverted, as Adobe writes them and Pillow reads them.
void CmykToRgb(uint8_t* row, int width) {
  for (uint8_t* pixel = row; pixel != row + static_cast<size_t>(width) * kPixelBytes;
       pixel += kPixelBytes) {
    const int white = pixel[3];
    for (int channel = 0; channel < 3; ++channel) {
      pixel[channel] = static_cast<uint8_t>(white - Product255(255 - pixel[channel], white));
    }
  }
}

}  // namespace

absl::StatusOr<Size> ReadJpegSize(std::span<const uint8_t> bytes) {
  Decompressor file(bytes);
  RETURN_IF_ERROR(file.ReadHeader());
  const auto& state = file.state();
  if (int64_t{state.image_width} * state.image_height > kMostPixels) {
    return InvalidArgument("the image has ", state.image_width, " x ", state.image_height,
                           " pixels; at most ", kMostPixels, " are decoded");
  }
  return Size{static_cast<int>(state.image_width), static_cast<int>(state.image_height)};
}

absl::StatusOr<Origin> DecodeJpeg(std::span<const uint8_t> bytes, const Box& part, int scale,
                                  Pixels& pixels) {
  Decompressor file(bytes);
  RETURN_IF_ERROR(file.ReadHeader());
  auto& state = file.state();
  const bool complete = file.HasEnd();
  JDIMENSION left = static_cast<JDIMENSION>(std::max(0, part.x - kMarginColumns));
  RETURN_IF_ERROR(file.Run([&] {
    state.scale_num = 1;
    state.scale_denom = static_cast<unsigned>(scale);
    state.out_color_space = state.num_components == 4 ? JCS_CMYK : JCS_EXT_RGBX;
    jpeg_start_decompress(&state);
    const auto right = std::min<JDIMENSION>(
        state.output_width, static_cast<JDIMENSION>(part.x + part.width + kMarginColumns));
    if (left > 0 || right < state.output_width) {
      JDIMENSION width = right - left;
      jpeg_crop_scanline(&state, &left, &width);
    }
  }));
  pixels.Reset({static_cast<int>(state.output_width), part.height});
  std::vector<uint8_t> last_row(complete ? 0 : pixels.stride());
  RETURN_IF_ERROR(file.Run([&] {
    if (part.y > 0) jpeg_skip_scanlines(&state, static_cast<JDIMENSION>(part.y));
    for (int y = 0; y < part.height;) {
      JSAMPROW rows[kRowsAtOnce];
      const int count = std::min(kRowsAtOnce, part.height - y);
      for (int i = 0; i < count; ++i) rows[i] = pixels.row(y + i);
      y += static_cast<int>(jpeg_read_scanlines(&state, rows, static_cast<JDIMENSION>(count)));
    }
    if (!complete && state.output_scanline < state.output_height) {
      // libjpeg reads nothing for rows that are skipped up to the end.
      jpeg_skip_scanlines(&state, state.output_height - state.output_scanline - 1);
      JSAMPROW row = last_row.data();
      jpeg_read_scanlines(&state, &row, 1);
    }
  }));
  if (state.out_color_space == JCS_CMYK) {
    for (int y = 0; y < part.height; ++y) CmykToRgb(pixels.row(y), pixels.size().width);
  }
  return Origin{static_cast<int>(left), part.y};
}

}  // namespace hpu::data_loader
