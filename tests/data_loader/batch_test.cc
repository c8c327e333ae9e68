// Threads of a Loader: results, the first error, and ends at any moment.
#include "data_loader/batch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/data_loader/encoded.h"

namespace hpu::data_loader {
namespace {

constexpr int kImages = 40;
constexpr Size kResult{8, 6};
constexpr size_t kFloats = size_t{3} * kResult.width * kResult.height;

class LoaderTest : public testing::Test {
 protected:
  LoaderTest() {
    std::filesystem::create_directories(folder_);
    for (int i = 0; i < kImages; ++i) {
      paths_.push_back((folder_ / (std::to_string(i) + ".jpg")).string());
      Write(i, EncodedImage({40 + i, 30 + i}));
    }
  }
  ~LoaderTest() override { std::filesystem::remove_all(folder_); }

  void Write(int i, const std::string& content) {
    std::ofstream(paths_[i], std::ios::binary) << content;
  }
  static std::unique_ptr<Loader> MakeLoader() {
    return std::make_unique<Loader>(3, 2, Settings{.kernels = &AvailableKernels().front()});
  }
  static Form FloatForm() {
    std::vector<float> values(768);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
    return {.table = {bytes, bytes + values.size() * sizeof(float)}};
  }
  static Plan WholeImage(Size size) {
    return {.stages = {{.source = {0, 0, size.width, size.height},
                        .size = kResult,
                        .window = {0, 0, kResult.width, kResult.height}}}};
  }
  std::shared_ptr<Batch> Start(Loader& loader, std::vector<float>& planes) {
    const auto files = loader.Read(paths_);
    while (!files->Wait(std::chrono::milliseconds(1000))) {
    }
    std::vector<Plan> plans;
    for (const File& file : files->entries()) {
      EXPECT_TRUE(file.status.ok()) << file.status;
      plans.push_back(WholeImage(file.size));
    }
    planes.assign(kImages * kFloats, -1);
    return loader.Decode(
        files, plans,
        {.first = reinterpret_cast<uint8_t*>(planes.data()), .size = kResult, .form = FloatForm()});
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) /
      ("loader_test_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
  std::vector<std::string> paths_;
};

TEST_F(LoaderTest, FillsTheTarget) {
  const auto loader = MakeLoader();
  std::vector<float> planes;
  // The second round uses memory again.
  for (int round = 0; round < 2; ++round) {
    const auto batch = Start(*loader, planes);
    while (!batch->Wait(std::chrono::milliseconds(1000))) {
    }
    EXPECT_TRUE(batch->status().ok()) << batch->status();
    for (size_t i = 0; i < planes.size(); ++i) {
      const size_t channel = i % kFloats / (kFloats / 3);
      ASSERT_GE(planes[i], 256.0F * static_cast<float>(channel));
      ASSERT_LT(planes[i], 256.0F * static_cast<float>(channel + 1));
    }
  }
}

TEST_F(LoaderTest, ReportsTheFirstOfSeveralErrors) {
  const auto loader = MakeLoader();
  const std::string file = EncodedImage({300, 300});
  Write(7, file.substr(0, file.size() / 2));
  Write(31, file.substr(0, file.size() / 2));
  std::vector<float> planes;
  const auto batch = Start(*loader, planes);
  while (!batch->Wait(std::chrono::milliseconds(1000))) {
  }
  EXPECT_EQ(batch->status().message().find(paths_[7] + ": the file ends too early"), 0)
      << batch->status();
}

TEST_F(LoaderTest, AFileThatIsMissingOrNoJpegHasAStatus) {
  const auto loader = MakeLoader();
  std::filesystem::remove(paths_[3]);
  Write(4, "text");
  const auto files = loader->Read(paths_);
  while (!files->Wait(std::chrono::milliseconds(1000))) {
  }
  EXPECT_EQ(files->entries()[3].status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(files->entries()[4].status.code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(files->entries()[5].status.ok());
}

TEST_F(LoaderTest, ACancelledBatchWritesNothingMore) {
  const auto loader = MakeLoader();
  for (int round = 0; round < 20; ++round) {
    auto planes = std::make_unique<std::vector<float>>();
    const auto batch = Start(*loader, *planes);
    batch->Cancel();
    planes.reset();  // the sanitizers see a write after this
  }
}

TEST_F(LoaderTest, CopiesViewsWithAnyStrides) {
  const auto loader = MakeLoader();
  std::vector<uint8_t> source(3 * 4 * 5);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<uint8_t>(i);
  std::vector<uint8_t> table(2 * 256);
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<uint8_t>(i + i / 256);
  // Planes 1 and 0, rows 1 and 2, columns 4, 2 and 0.
  View view{.first = &source[20 + 5 + 4], .axes = {{2, -20}, {2, 5}, {3, -2}}};
  std::vector<uint8_t> copied(2 * view.result_bytes());
  View looked_up = view;
  looked_up.table = std::make_shared<const std::vector<uint8_t>>(table);
  looked_up.table_bytes = 1;
  const auto batch = loader->Copy({view, looked_up}, {copied.data(), view.result_bytes()});
  while (!batch->Wait(std::chrono::milliseconds(1000))) {
  }
  EXPECT_TRUE(batch->status().ok());
  EXPECT_EQ(copied, (std::vector<uint8_t>{29, 27, 25, 34, 32, 30, 9,  7, 5, 14, 12, 10,  //
                                          29, 27, 25, 34, 32, 30, 10, 8, 6, 15, 13, 11}));
}

TEST_F(LoaderTest, FindsTheLargestPartsOfEachLabel) {
  const auto loader = MakeLoader();
  // Two planes of three rows. Label 1 is joined through the second plane; 2 touches itself by an
  // edge only.
  const std::vector<uint8_t> labels{1, 0, 1, 0, 0, 0, 2, 0, 0,  //
                                    1, 1, 1, 0, 2, 0, 0, 0, 2};
  View view{.first = labels.data(), .axes = {{2, 9}, {3, 3}, {3, 1}}};
  const auto found = std::make_shared<std::vector<std::vector<Blobs>>>();
  const auto batch = loader->Find({view, view}, 2, found);
  while (!batch->Wait(std::chrono::milliseconds(1000))) {
  }
  for (const std::vector<Blobs>& blobs : *found) {
    ASSERT_EQ(blobs.size(), 2U);
    EXPECT_EQ(blobs[0].label, 1);
    ASSERT_EQ(blobs[0].cuboids.size(), 1U);
    const auto& [planes, rows, columns] = blobs[0].cuboids[0];
    EXPECT_EQ((std::vector<int64_t>{planes.begin, planes.end, rows.begin, rows.end, columns.begin,
                                    columns.end}),
              (std::vector<int64_t>{0, 2, 0, 1, 0, 3}));
    EXPECT_EQ(blobs[1].label, 2);
    EXPECT_EQ(blobs[1].cuboids.size(), 2U);  // of three
  }
}

TEST_F(LoaderTest, ALoaderEndsWhileBatchesAreMade) {
  for (int round = 0; round < 20; ++round) {
    std::vector<float> planes;
    auto loader = MakeLoader();
    const auto batch = Start(*loader, planes);
    const auto files = loader->Read(paths_);
    loader.reset();
    batch->Cancel();
  }
}

}  // namespace
}  // namespace hpu::data_loader
