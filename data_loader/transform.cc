#include "data_loader/transform.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "data_loader/jpeg.h"

namespace hpu::data_loader {
namespace {

// An image is decoded at a lower resolution where one and a half pixels remain for each result.
bool Suffices(int decoded, int results) { return 2 * decoded >= 3 * results; }

// One axis of a stage: source [begin, begin + length) at the scale, window of the results.
struct Span {
  int begin;
  int length;
  int size;
  int window_begin;
  int window_length;
};

// The part of the window that has results.
struct Inside {
  int begin;
  int end;
};
Inside InsideOf(const Span& span) {
  return {std::max(0, span.window_begin),
          std::min(span.size, span.window_begin + span.window_length)};
}

Axis AxisOf(const Span& span, int scale, Filter filter) {
  const int low = span.begin / scale;
  const int high = (span.begin + span.length + scale - 1) / scale;
  const Inside inside = InsideOf(span);
  // Counted from the first pixel of the source, as Pillow counts in an image that was cut out.
  Axis axis = MakeAxis({.begin = static_cast<double>(span.begin) / scale - low,
                        .end = static_cast<double>(span.begin + span.length) / scale - low,
                        .low = 0,
                        .high = high - low,
                        .size = span.size,
                        .window_begin = inside.begin,
                        .window_size = inside.end - inside.begin,
                        .filter = filter});
  axis.MoveOrigin(-low);
  return axis;
}

void Blacken(Pixels& pixels, int x, int y, int width, int height) {
  for (int row = y; row < y + height; ++row) {
    std::memset(pixels.row(row) + static_cast<size_t>(x) * kPixelBytes, 0,
                static_cast<size_t>(width) * kPixelBytes);
  }
}

void CopyRgb(const Image& image, Pixels& pixels) {
  pixels.Reset(image.size);
  const uint8_t* from = image.bytes.data();
  for (int y = 0; y < image.size.height; ++y) {
    uint8_t* to = pixels.row(y);
    for (int x = 0; x < image.size.width; ++x, from += 3, to += kPixelBytes) {
      std::memcpy(to, from, 3);
      to[3] = 255;
    }
  }
}

bool Fits(const Stage& stage, Size size) {
  const Box& source = stage.source;
  return source.x >= 0 && source.y >= 0 && source.width > 0 && source.height > 0 &&
         source.width <= size.width - source.x && source.height <= size.height - source.y &&
         stage.size.width > 0 && stage.size.height > 0 && stage.window.width > 0 &&
         stage.window.height > 0;
}

// Runs one stage. `decode` makes the pixels that the axes need, at `scale`, and returns where they
// begin.
template <typename Decode>
absl::Status RunStage(const Stage& stage, int scale, const Settings& settings, Pixels& between,
                      Pixels& result, const Decode& decode) {
  const Box& window = stage.window;
  const Span across{stage.source.x, stage.source.width, stage.size.width, window.x, window.width};
  const Span down{stage.source.y, stage.source.height, stage.size.height, window.y, window.height};
  const Inside inside_x = InsideOf(across);
  const Inside inside_y = InsideOf(down);
  result.Reset({window.width, window.height});
  if (inside_x.begin >= inside_x.end || inside_y.begin >= inside_y.end) {
    Blacken(result, 0, 0, window.width, window.height);
    return absl::OkStatus();
  }
  Axis columns = AxisOf(across, scale, settings.filter);
  Axis rows = AxisOf(down, scale, settings.filter);
  const Pixels* source = nullptr;
  RETURN_IF_ERROR(decode(columns, rows, source));
  const int left = inside_x.begin - window.x;
  const int top = inside_y.begin - window.y;
  const bool down_first = settings.tall_first && down.size < down.length &&
                          down.length - down.size > 2 * (across.length - across.size);
  Resize(*source, columns, rows, down_first, *settings.kernels, between, result, left, top);
  const int right = inside_x.end - window.x;
  const int bottom = inside_y.end - window.y;
  Blacken(result, 0, 0, window.width, top);
  Blacken(result, 0, bottom, window.width, window.height - bottom);
  Blacken(result, 0, top, left, bottom - top);
  Blacken(result, right, top, window.width - right, bottom - top);
  return absl::OkStatus();
}

}  // namespace

int DecodingScale(const Stage& stage) {
  int scale = 1;
  while (scale < 8 && Suffices(stage.source.width / (2 * scale), stage.size.width) &&
         Suffices(stage.source.height / (2 * scale), stage.size.height)) {
    scale *= 2;
  }
  return scale;
}

absl::StatusOr<const Pixels*> RunStages(const Image& image, const Plan& plan,
                                        const Settings& settings, Workspace& workspace) {
  Size size = image.size;
  const Pixels* latest = nullptr;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage& stage = plan.stages[i];
    if (!Fits(stage, size)) {
      return InvalidArgument("stage ", i, " does not fit an image of ", size.width, " x ",
                             size.height);
    }
    const bool decodes = i == 0 && image.is_jpeg;
    const int scale = decodes && settings.scaled_decoding ? DecodingScale(stage) : 1;
    Pixels& result = workspace.results[i % 2];
    RETURN_IF_ERROR(RunStage(stage, scale, settings, workspace.between, result,
                             [&](Axis& columns, Axis& rows, const Pixels*& source) -> absl::Status {
                               if (latest != nullptr) {
                                 source = latest;
                                 return absl::OkStatus();
                               }
                               source = &workspace.decoded;
                               if (!image.is_jpeg) {
                                 CopyRgb(image, workspace.decoded);
                                 return absl::OkStatus();
                               }
                               ASSIGN_OR_RETURN(
                                   const Origin origin,
                                   DecodeJpeg(image.bytes,
                                              {.x = columns.source_begin,
                                               .y = rows.source_begin,
                                               .width = columns.source_end - columns.source_begin,
                                               .height = rows.source_end - rows.source_begin},
                                              scale, workspace.decoded));
                               columns.MoveOrigin(origin.x);
                               rows.MoveOrigin(origin.y);
                               return absl::OkStatus();
                             }));
    latest = &result;
    size = result.size();
  }
  return latest;
}

namespace {

template <typename Element>
void WriteAs(const Pixels& pixels, bool flip, const Form& form, Element* to) {
  const auto [width, height] = pixels.size();
  const auto* table = reinterpret_cast<const Element*>(form.table.data());
  const ptrdiff_t channel = form.interleaved ? 1 : static_cast<ptrdiff_t>(width) * height;
  const ptrdiff_t column = form.interleaved ? 3 : 1;
  const ptrdiff_t step = flip ? -column : column;
  const int red = form.bgr ? 2 : 0;
  const int blue = 2 - red;
  for (int y = 0; y < height; ++y) {
    const uint8_t* pixel = pixels.row(y);
    Element* element = to + (static_cast<ptrdiff_t>(y) * width + (flip ? width - 1 : 0)) * column;
    for (int x = 0; x < width; ++x, pixel += kPixelBytes, element += step) {
      element[0] = table[pixel[red]];
      element[channel] = table[256 + pixel[1]];
      element[2 * channel] = table[512 + pixel[blue]];
    }
  }
}

}  // namespace

void WriteElements(const Pixels& pixels, bool flip, const Form& form, uint8_t* to) {
  switch (form.element_bytes()) {
    case 1:
      return WriteAs(pixels, flip, form, to);
    case 2:
      return WriteAs(pixels, flip, form, reinterpret_cast<uint16_t*>(to));
    default:
      return WriteAs(pixels, flip, form, reinterpret_cast<uint32_t*>(to));
  }
}

}  // namespace hpu::data_loader
