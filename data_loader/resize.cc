#include "data_loader/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

namespace hpu::data_loader {
namespace {

double Sinc(double x) {
  const double angle = std::numbers::pi * x;
  return x == 0 ? 1.0 : std::sin(angle) / angle;
}

double Cubic(double x) {
  constexpr double kSlope = -0.5;
  if (x < 1) return ((kSlope + 2) * x - (kSlope + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * kSlope : 0.0;
}

// The distance beyond which a filter is 0, where nothing is reduced.
double ReachOf(Filter filter) {
  switch (filter) {
    case Filter::kBox:
      return 0.5;
    case Filter::kBicubic:
      return 2.0;
    case Filter::kLanczos:
      return 3.0;
    case Filter::kNearest:
    case Filter::kBilinear:
      break;
  }
  return 1.0;
}

double ShareOf(Filter filter, double x) {
  switch (filter) {
    case Filter::kNearest:
      return 1.0;
    case Filter::kBox:
      return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
    case Filter::kBilinear:
      return std::max(0.0, 1.0 - std::abs(x));
    case Filter::kBicubic:
      return Cubic(std::abs(x));
    case Filter::kLanczos:
      return x >= -3 && x < 3 ? Sinc(x) * Sinc(x / 3) : 0.0;
  }
  return 0.0;
}

void SetWeight(WeightPair* weights, int tap, int32_t weight) {
  constexpr int32_t kHalf = 1 << (kLowBits - 1);
  const int32_t high = (weight + kHalf) >> kLowBits;
  const int32_t low = weight - high * (1 << kLowBits);
  const int shift = tap % 2 * 16;
  weights[tap / 2].high |= static_cast<uint32_t>(static_cast<uint16_t>(high)) << shift;
  weights[tap / 2].low |= static_cast<uint32_t>(static_cast<uint16_t>(low)) << shift;
}

}  // namespace

void Axis::MoveOrigin(int origin) {
  for (int32_t& position : first) position -= origin;
  source_begin -= origin;
  source_end -= origin;
}

Axis MakeAxis(const AxisRange& range) {
  Axis axis;
  const double step = (range.end - range.begin) / range.size;
  const double growth = std::max(step, 1.0);
  const double reach = ReachOf(range.filter) * growth;
  const double steepness = 1.0 / growth;
  const auto center = [&](int i) { return range.begin + (range.window_begin + i + 0.5) * step; };
  // Pillow adds up the centres of the nearest pixels, which matters where one lies between two.
  double nearest = range.begin + 0.5 * step;
  for (int i = 0; i < range.window_begin; ++i) nearest += step;
  std::vector<int> counts(range.window_size);
  axis.first.resize(range.window_size);
  for (int i = 0; i < range.window_size; ++i) {
    if (range.filter == Filter::kNearest) {
      axis.first[i] = std::clamp(static_cast<int>(nearest), range.low, range.high - 1);
      counts[i] = axis.taps = 1;
      nearest += step;
      continue;
    }
    axis.first[i] = std::max(range.low, static_cast<int>(center(i) - reach + 0.5));
    counts[i] = std::min(range.high, static_cast<int>(center(i) + reach + 0.5)) - axis.first[i];
    axis.taps = std::max(axis.taps, counts[i]);
  }
  axis.weights.resize(axis.first.size() * axis.pairs());
  axis.copies = true;
  axis.source_begin = range.high;
  axis.source_end = range.low;
  std::vector<double> shares(axis.taps);
  for (int i = 0; i < range.window_size; ++i) {
    double sum = 0;
    for (int t = 0; t < counts[i]; ++t) {
      shares[t] = ShareOf(range.filter, (axis.first[i] + t - center(i) + 0.5) * steepness);
      sum += shares[t];
    }
    // The taps of the last results must not reach behind the source, so theirs begin with zeros.
    const int zeros = std::max(0, axis.first[i] + axis.taps - range.high);
    WeightPair* weights = &axis.weights[static_cast<size_t>(i) * axis.pairs()];
    for (int t = 0; t < counts[i]; ++t) {
      const double weight = shares[t] / sum * (1 << kWeightBits);
      SetWeight(weights, zeros + t, static_cast<int32_t>((weight < 0 ? -0.5 : 0.5) + weight));
    }
    axis.copies &= shares[0] == sum && axis.first[i] == axis.first[0] + i;
    axis.first[i] -= zeros;
    axis.source_begin = std::min(axis.source_begin, axis.first[i]);
    axis.source_end = std::max(axis.source_end, axis.first[i] + axis.taps);
  }
  // Copies have one tap each.
  if (axis.copies) {
    if (range.filter != Filter::kNearest) {
      for (int i = 0; i < range.window_size; ++i) axis.first[i] = static_cast<int>(center(i));
    }
    axis.source_begin = axis.first[0];
    axis.source_end = axis.first[0] + range.window_size;
  }
  return axis;
}

namespace {

Bytes BytesOf(const Pixels& pixels) { return {pixels.row(0), pixels.stride()}; }

void Across(const Bytes& from, int rows, const Axis& columns, const Kernels& kernels, uint8_t* to,
            size_t stride) {
  kernels.across(from, rows, columns.first.data(), columns.weights.data(), columns.pairs(),
                 static_cast<int>(columns.first.size()), to, stride);
}

// `from` begins with the row rows.source_begin.
void Down(const Bytes& from, const Axis& rows, size_t bytes, const Kernels& kernels, uint8_t* to,
          size_t stride) {
  for (size_t i = 0; i < rows.first.size(); ++i, to += stride) {
    const uint8_t* row = from.first + from.stride * (rows.first[i] - rows.source_begin);
    if (rows.copies) {
      std::memcpy(to, row, bytes);
    } else {
      kernels.down({row, from.stride}, &rows.weights[i * rows.pairs()], rows.taps, bytes, to);
    }
  }
}

}  // namespace

void Resize(const Pixels& source, const Axis& columns, const Axis& rows, bool down_first,
            const Kernels& kernels, Pixels& between, Pixels& target, int x, int y) {
  const int width = static_cast<int>(columns.first.size());
  const int height = static_cast<int>(rows.first.size());
  const size_t bytes = static_cast<size_t>(width) * kPixelBytes;
  uint8_t* const to = target.row(y) + static_cast<size_t>(x) * kPixelBytes;
  Bytes from{source.row(rows.source_begin), source.stride()};
  if (columns.copies) {
    from.first += static_cast<size_t>(columns.source_begin) * kPixelBytes;
    Down(from, rows, bytes, kernels, to, target.stride());
  } else if (down_first) {
    between.Reset({source.size().width, height});
    Down(from, rows, source.stride(), kernels, between.row(0), between.stride());
    Across(BytesOf(between), height, columns, kernels, to, target.stride());
  } else {
    const int read = rows.source_end - rows.source_begin;
    between.Reset({width, read});
    Across(from, read, columns, kernels, between.row(0), between.stride());
    Down(BytesOf(between), rows, bytes, kernels, to, target.stride());
  }
}

}  // namespace hpu::data_loader
