// Files that are damaged in any way, and kernels of every ISA level. Pixels beside Pillow's are
// compared in tests/python/data_loader.
#include "data_loader/transform.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "data_loader/jpeg.h"
#include "data_loader/resize.h"
#include "tests/data_loader/encoded.h"

namespace hpu::data_loader {
namespace {

constexpr Size kSize{97, 61};

std::span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// A crop, a resize and a window that reaches beyond, of an image that may be smaller than expected.
absl::Status Transform(const std::string& file, bool scaled, Workspace& workspace) {
  ASSIGN_OR_RETURN(const Size size, ReadJpegSize(BytesOf(file)));
  const Plan plan{.stages = {{.source = {size.width / 5, size.height / 4, size.width / 2 + 1,
                                         size.height / 2 + 1},
                              .size = {12, 9},
                              .window = {-3, 2, 17, 11}}}};
  const Settings settings{.scaled_decoding = scaled, .kernels = &AvailableKernels().back()};
  const Image image{.bytes = BytesOf(file), .size = size};
  ASSIGN_OR_RETURN(const Pixels* result, RunStages(image, plan, settings, workspace));
  EXPECT_EQ(result->size().width, 17);
  EXPECT_EQ(result->size().height, 11);
  return absl::OkStatus();
}

TEST(DamagedFiles, EveryPrefixIsAnErrorOrAnImage) {
  Workspace workspace;
  for (const bool progressive : {false, true}) {
    const std::string file = EncodedImage(kSize, progressive);
    EXPECT_TRUE(Transform(file, false, workspace).ok());
    for (size_t length = 0; length + 2 < file.size(); ++length) {
      EXPECT_FALSE(Transform(file.substr(0, length), length % 2 == 0, workspace).ok()) << length;
    }
  }
}

TEST(DamagedFiles, WrongBytesNeverLeaveTheImage) {
  Workspace workspace;
  std::mt19937 random(1);
  int failed = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string file = EncodedImage(kSize, round % 3 == 0, round % 5 == 0);
    for (int change = 0; change < 1 + round % 4; ++change) {
      // Headers, which say the size and the tables, are half of what is changed.
      const size_t range = round % 2 == 0 ? 650 : file.size();
      file[random() % range] = static_cast<char>(random());
    }
    auto size = ReadJpegSize(BytesOf(file));
    // Large sizes are correct and slow.
    if (size.ok() && int64_t{size->width} * size->height > 1 << 20) continue;
    failed += !Transform(file, round % 7 == 0, workspace).ok();
  }
  EXPECT_GT(failed, 100);
  EXPECT_LT(failed, 2900);
}

TEST(Kernels, EveryLevelGivesTheSameBytes) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    const Size size{1 + static_cast<int>(random() % 70), 1 + static_cast<int>(random() % 70)};
    const Size out{1 + static_cast<int>(random() % 90), 1 + static_cast<int>(random() % 90)};
    Pixels source;
    source.Reset(size);
    for (int y = 0; y < size.height; ++y) {
      for (size_t i = 0; i < source.stride(); ++i)
        source.row(y)[i] = static_cast<uint8_t>(random());
    }
    const Axis columns = MakeAxis(
        {.end = size.width * 1.0, .high = size.width, .size = out.width, .window_size = out.width});
    const Axis rows = MakeAxis({.end = size.height * 1.0,
                                .high = size.height,
                                .size = out.height,
                                .window_size = out.height});
    Pixels expected;
    for (const Kernels& kernels : AvailableKernels()) {
      Pixels between;
      Pixels result;
      result.Reset(out);
      Resize(source, columns, rows, round % 2 == 0, kernels, between, result, 0, 0);
      if (expected.size().width == 0) {
        expected.Reset(out);
        std::memcpy(expected.row(0), result.row(0), result.stride() * out.height);
      }
      ASSERT_EQ(std::memcmp(expected.row(0), result.row(0), result.stride() * out.height), 0)
          << kernels.name << " " << size.width << " x " << size.height;
    }
  }
}

TEST(Plans, ScalesLeaveOneAndAHalfPixelsForEachResult) {
  const auto scale = [](int width, int height, int size) {
    return DecodingScale({.source = {0, 0, width, height}, .size = {size, size}, .window = {}});
  };
  EXPECT_EQ(scale(300, 299, 100), 1);
  EXPECT_EQ(scale(300, 300, 100), 2);
  EXPECT_EQ(scale(600, 599, 100), 2);
  EXPECT_EQ(scale(600, 600, 100), 4);
  EXPECT_EQ(scale(9999, 9999, 100), 8);
  EXPECT_EQ(scale(50, 50, 100), 1);
}

}  // namespace
}  // namespace hpu::data_loader
