// Recipe tables, launches, serialisation (4.6, 4.7).
#include <cstdio>
#include <fstream>

#include "synapse/include/synapse_emulator.h"
#include "tests/synapse/launch_fixture.h"

namespace hpu {
namespace {

TEST_F(LaunchTest, TableQueries) {
  Recipe content = emulator::AddRecipe(kCount);
  content.tensors[1].permutation = {0};
  const synRecipeHandle recipe = LoadRecipe(content);
  uint32_t count = 0;
  uint64_t ids[3] = {};
  EXPECT_SUCCESS(api_->synTensorRetrieveLaunchAmount(recipe, &count));
  EXPECT_EQ(count, 3u);
  EXPECT_STATUS(synFail, api_->synTensorRetrieveLaunchIds(recipe, ids, 2));
  EXPECT_SUCCESS(api_->synTensorRetrieveLaunchIds(recipe, ids, 3));
  EXPECT_EQ(ids[2], 2u);
  std::vector<synRetrievedLaunchTensorInfo> infos(2);
  infos[0].tensorId = 2;
  infos[1].tensorId = 77;
  EXPECT_SUCCESS(api_->synTensorRetrieveLaunchInfoById(recipe, 2, infos.data()));
  EXPECT_STREQ(infos[0].tensorName, "out");
  EXPECT_EQ(infos[0].tensorDims, 1u);
  EXPECT_EQ(infos[0].tensorMaxSize[0], kCount);
  EXPECT_EQ(infos[0].tensorDataType, syn_type_int32);
  EXPECT_EQ(infos[0].tensorPermutation[3], 3);
  EXPECT_EQ(infos[0].tensorSectionId, 2u);
  EXPECT_EQ(infos[0].isInput, 0);
  EXPECT_EQ(infos[1].tensorType, TENSOR_TYPE_INVALID);
  const char* names[] = {"b", "nobody"};
  EXPECT_SUCCESS(api_->synTensorRetrieveIds(recipe, names, ids, 2));
  EXPECT_EQ(ids[0], 1u);
  EXPECT_EQ(ids[1], TENSOR_INVALID_ID);
  const synRecipeAttribute attributes[] = {RECIPE_ATTRIBUTE_WORKSPACE_SIZE,
                                           RECIPE_ATTRIBUTE_PERSISTENT_TENSORS_SIZE};
  uint64_t values[2] = {};
  EXPECT_SUCCESS(api_->synRecipeGetAttribute(values, attributes, 2, recipe));
  EXPECT_EQ(values[0], 256u);
  EXPECT_EQ(values[1], 3 * kBytes);
}

// A table that was valid before is compared, not trusted: every way in which it may have become
// invalid is noticed.
TEST_F(LaunchTest, RepeatedTablesAreCheckedWhenSomethingChanged) {
  const synRecipeHandle recipe = LoadRecipe(emulator::AddRecipe(kCount));
  EXPECT_EQ(Run(recipe), 11);
  EXPECT_EQ(Run(recipe), 11);
  // Another address, then the old one again.
  const uint64_t other = Allocate(kBytes);
  EXPECT_SUCCESS(Launch(recipe, {a_, b_, other}));
  EXPECT_EQ(Download(other, 1), std::vector<int32_t>{11});
  Upload(std::vector<int32_t>(kCount, 5), a_);
  EXPECT_EQ(Run(recipe), 15);
  // The same addresses with one thing wrong.
  EXPECT_STATUS(synFailedSectionValidation, Launch(recipe, {a_, b_, a_}));
  EXPECT_STATUS(synFailedSectionValidation, Launch(recipe, {a_, b_, 4096}));
  uint64_t workspace = 0;
  EXPECT_SUCCESS(api_->synDeviceMalloc(device_, 512, 0, 0, &workspace));
  auto table = Table({a_, b_, out_});
  const auto launch = [&](uint64_t at) {
    return api_->synLaunch(stream_, table.data(), 3, at, recipe, 0);
  };
  EXPECT_SUCCESS(launch(workspace));
  EXPECT_STATUS(synFailedSectionValidation, launch(64));
  EXPECT_STATUS(synInvalidArgument, launch(workspace + 64));
  table[1].tensorType = SHAPE_TENSOR;
  EXPECT_STATUS(synInvalidTensorProperties, launch(workspace));
  table[1].tensorType = DATA_TENSOR;
  table[1].tensorId = 7;
  EXPECT_STATUS(synFailedSectionValidation, launch(workspace));
  table[1].tensorId = TENSOR_INVALID_ID;
  EXPECT_STATUS(synFailedSectionValidation, launch(workspace));
  table[1].tensorId = 1;
  EXPECT_SUCCESS(launch(workspace));
  EXPECT_STATUS(synFailedSectionValidation,
                api_->synLaunch(stream_, table.data(), 2, workspace, recipe, 0));
  // Single addresses that moved since the last launch.
  table[2].pTensorAddress = other;
  EXPECT_SUCCESS(launch(workspace));
  for (const uint64_t wrong : {a_, a_ + kBytes - 128, b_ - 128, uint64_t{4096}, ~uint64_t{0} - 8}) {
    table[2].pTensorAddress = wrong;
    EXPECT_STATUS(synFailedSectionValidation, launch(workspace));
    table[2].pTensorAddress = other;
    EXPECT_SUCCESS(launch(workspace));
  }
  std::swap(table[0].pTensorAddress, table[1].pTensorAddress);
  EXPECT_SUCCESS(launch(workspace));
  EXPECT_EQ(Download(other, 1), std::vector<int32_t>{15});
  std::swap(table[0].pTensorAddress, table[1].pTensorAddress);
  table[2].pTensorAddress = out_;
  EXPECT_SUCCESS(launch(workspace));
  EXPECT_SUCCESS(api_->synStreamSynchronize(stream_));
  // Memory was freed in between: the table is checked again, and still fits.
  EXPECT_SUCCESS(api_->synDeviceFree(device_, other, 0));
  EXPECT_EQ(Run(recipe), 15);
}

TEST_F(LaunchTest, ByIdAndByName) {
  const synRecipeHandle recipe = LoadRecipe(emulator::AddRecipe(kCount));
  EXPECT_EQ(Run(recipe), 11);
  auto table = Table({out_, a_, b_});
  table[0].tensorName = "out";
  table[1].tensorName = "a";
  table[2].tensorName = "b";
  Upload(std::vector<int32_t>(kCount, 5), a_);
  const uint64_t workspace = Allocate(256);
  EXPECT_SUCCESS(
      api_->synLaunch(stream_, table.data(), 3, workspace, recipe, SYN_FLAGS_TENSOR_NAME));
  EXPECT_EQ(Download(out_, 1)[0], 15);
}

TEST_F(LaunchTest, WrongTablesAreRefused) {
  Recipe content = emulator::AddRecipe(kCount);
  content.tensors[1].section = 0;  // a and b share section 0
  content.tensors[1].section_offset = 20096;
  const synRecipeHandle recipe = LoadRecipe(content);
  const uint64_t both = Allocate(20096 + kBytes);
  // One address is missing.
  EXPECT_STATUS(synFailedSectionValidation, Launch(recipe, {both, both + 20096}));
  EXPECT_STATUS(synFailedSectionValidation, Launch(recipe, {both, both + 128, out_}));
  EXPECT_STATUS(synFailedSectionValidation, Launch(recipe, {both, 0, both + 128}));  // overlap
  EXPECT_STATUS(synFail, Launch(recipe, {0, 64, out_}));  // below the section offset
  EXPECT_STATUS(synFailedSectionValidation, Launch(recipe, {0, 0, out_}));
  EXPECT_STATUS(synFailedSectionValidation, Launch(recipe, {128, 0, out_}));  // not device memory
  EXPECT_SUCCESS(Launch(recipe, {both, 0, out_}));  // the other tensor gives the base
  auto table = Table({both, 0, out_});
  EXPECT_STATUS(synFailedSectionValidation,
                api_->synLaunch(stream_, table.data(), 3, 0, recipe, 0));  // no workspace
  table[0].tensorType = SHAPE_TENSOR;
  EXPECT_STATUS(synInvalidTensorProperties,
                api_->synLaunch(stream_, table.data(), 3, Allocate(256), recipe, 0));
  EXPECT_STATUS(synInvalidArgument, api_->synLaunch(stream_, table.data(), 3, 0, nullptr, 0));
  EXPECT_SUCCESS(api_->synStreamSynchronize(stream_));
}

TEST_F(LaunchTest, OtherDeviceTypeAndHigherIsaAreRefused) {
  Recipe content = emulator::AddRecipe(kCount);
  content.device_type = synDeviceGaudi3;
  EXPECT_STATUS(synInvalidArgument, Launch(LoadRecipe(content), {a_, b_, out_}));
  content = emulator::AddRecipe(kCount);
  content.isa = IsaLevel::kV4Amx;
  char level[32];
  EXPECT_SUCCESS(api_->synEmulatorGetIsaLevel(level, sizeof(level)));
  if (std::string(level) == "x86-64-v4-amx") GTEST_SKIP() << "no higher level than this CPU's";
  const synRecipeHandle recipe = LoadRecipe(content);
  EXPECT_STATUS(synUnsupported, Launch(recipe, {a_, b_, out_}));
  const auto table = Table({a_, b_, out_});
  EXPECT_EQ(api_->synLaunch(stream_, table.data(), 3, Allocate(256), recipe, 0), synUnsupported);
  const std::string text = api_->synGetLastErrorMessage();
  EXPECT_NE(text.find(level), std::string::npos) << text;
  EXPECT_NE(text.find("x86-64-v4-amx"), std::string::npos) << text;
}

TEST_F(LaunchTest, SplitOverThreadsCoversEveryTaskOnce) {
  for (const uint32_t threads : {1u, 2u, 5u, 0u}) {
    EXPECT_SUCCESS(api_->synEmulatorSetComputeThreads(threads));
    const synRecipeHandle recipe = LoadRecipe(emulator::VisitRecipe(kCount, 7, 50));
    EXPECT_SUCCESS(api_->synMemsetD32Async(a_, 0, kCount, stream_));
    EXPECT_SUCCESS(Launch(recipe, {a_}));
    EXPECT_EQ(Download(a_, kCount), std::vector<int32_t>(kCount, 50)) << threads;
    EXPECT_SUCCESS(api_->synRecipeDestroy(recipe));
  }
}

TEST_F(LaunchTest, ScratchIsOfTheThread) {
  EXPECT_SUCCESS(api_->synEmulatorSetComputeThreads(4));
  EXPECT_SUCCESS(Launch(LoadRecipe(emulator::ScratchRecipe(kCount)), {out_}));
  const auto values = Download(out_, kCount);
  for (int32_t i = 0; i < static_cast<int32_t>(kCount); ++i) {
    ASSERT_EQ(values[static_cast<size_t>(i)], 256 * i + 255 * 128);
  }
}

TEST_F(LaunchTest, SerialiseToFileAndBack) {
  const synRecipeHandle recipe = LoadRecipe(emulator::AddRecipe(kCount));
  const std::string path = ::testing::TempDir() + "/synapse_conformance.recipe";
  EXPECT_SUCCESS(api_->synRecipeSerialize(recipe, path.c_str()));
  EXPECT_SUCCESS(api_->synRecipeDestroy(recipe));
  synRecipeHandle loaded = nullptr;
  EXPECT_SUCCESS(api_->synRecipeDeSerialize(&loaded, path.c_str()));
  EXPECT_EQ(Run(loaded), 11);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(40);
    file.put('x');
  }
  EXPECT_STATUS(synWrongParamsFile, api_->synRecipeDeSerialize(&loaded, path.c_str()));
  EXPECT_STATUS(synWrongParamsFile, api_->synRecipeDeSerialize(&loaded, "/dev/null/recipe"));
  EXPECT_STATUS(synWrongParamsFile,
                api_->synRecipeSerialize(LoadRecipe(emulator::AddRecipe(1)), "/dev/null/recipe"));
  std::remove(path.c_str());
}

TEST_F(LaunchTest, ConstSections) {
  Recipe content = emulator::AddRecipe(2);
  content.const_sections = {{.section = 0, .data = {1, 0, 0, 0, 2, 0, 0, 0}}};
  const synRecipeHandle recipe = LoadRecipe(content);
  uint64_t value = 0;
  EXPECT_STATUS(synFail, api_->synRecipeSectionGetProp(recipe, 9, SECTION_SIZE, &value));
  EXPECT_SUCCESS(api_->synRecipeSectionGetProp(recipe, 0, IS_CONST, &value));
  EXPECT_EQ(value, 1u);
  EXPECT_SUCCESS(api_->synRecipeSectionGetProp(recipe, 0, SECTION_SIZE, &value));
  EXPECT_EQ(value, 8u);
  EXPECT_SUCCESS(api_->synRecipeSectionGetProp(recipe, 0, SECTION_DATA, &value));
  auto* data = reinterpret_cast<uint8_t*>(value);
  EXPECT_EQ(data[4], 2);
  const synSectionId section = 0;
  EXPECT_SUCCESS(api_->synRecipeSectionHostBuffersClear(recipe, &section, 1));
  EXPECT_STATUS(synInvalidArgument, api_->synRecipeSectionGetProp(recipe, 0, SECTION_DATA, &value));
  delete[] data;
}

TEST_F(LaunchTest, ProfilerSeesKernels) {
  EXPECT_SUCCESS(api_->synProfilerStart(synTraceAll, device_));
  EXPECT_EQ(Run(LoadRecipe(emulator::AddRecipe(kCount))), 11);
  EXPECT_SUCCESS(api_->synProfilerStop(synTraceAll, device_));
  size_t size = 0, count = 0;
  EXPECT_SUCCESS(api_->synProfilerGetTrace(synTraceDevice, device_, synTraceFormatTEF, nullptr,
                                           &size, &count));
  EXPECT_EQ(count, 8u);  // names of 2 processes and 3 rows; a launch, a kernel, a copy
  std::vector<char> buffer(size - 1);
  EXPECT_STATUS(synInvalidArgument,
                api_->synProfilerGetTrace(synTraceDevice, device_, synTraceFormatTEF, buffer.data(),
                                          &(--size), &count));
}

// 5.3; collectives_test.cc has several ranks.
TEST_F(LaunchTest, CollectivesOfOneRank) {
  hcclComm_t comm = nullptr;
  hcclUniqueId id{};
  ASSERT_EQ(api_->hcclGetUniqueId(&id), hcclSuccess);
  ASSERT_EQ(api_->hcclCommInitRank(&comm, 1, id, 0), hcclSuccess);
  int count = 0;
  EXPECT_EQ(api_->hcclCommCount(comm, &count), hcclSuccess);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(api_->hcclAllReduce(reinterpret_cast<void*>(b_), reinterpret_cast<void*>(out_), kCount,
                                hcclFloat32, hcclSum, comm, stream_),
            hcclSuccess);
  EXPECT_EQ(Download(out_, kCount), std::vector<int32_t>(kCount, 10));
  EXPECT_EQ(api_->hcclSend(reinterpret_cast<void*>(b_), 1, hcclFloat32, 0, comm, stream_),
            hcclInvalidUsage);
  EXPECT_EQ(api_->hcclCommDestroy(comm), hcclSuccess);
  EXPECT_EQ(api_->hcclCommDestroy(comm), hcclInvalidArgument);
}

}  // namespace
}  // namespace hpu
