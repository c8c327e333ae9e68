// Tests traces of compiled graphs: what the trace contains about a kernel (1.13).
#include <map>

#include "synapse/include/synapse_node_params.h"
#include "tests/synapse/fixture.h"

namespace hpu {
namespace {

class TraceTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!api_->is_emulator() || !HasCompiler()) GTEST_SKIP() << "needs the emulator's compiler";
    ASSERT_EQ(api_->synGraphCreate(&graph_, synDeviceGaudi2), synSuccess);
  }
  void TearDown() override {
    if (graph_ != nullptr) api_->synGraphDestroy(graph_);
    DeviceTest::TearDown();
  }
  // `sizes` are FCD-first; persistent tensors get device memory and a row of the launch table.
  synTensor Tensor(const char* name, std::vector<uint64_t> sizes, bool persistent) {
    synTensor tensor = nullptr;
    synTensorGeometry geometry{};
    geometry.dims = static_cast<uint32_t>(sizes.size());
    std::copy(sizes.begin(), sizes.end(), geometry.sizes);
    EXPECT_SUCCESS(api_->synTensorHandleCreate(&tensor, graph_, DATA_TENSOR, name));
    EXPECT_SUCCESS(api_->synTensorSetGeometry(tensor, &geometry, synGeometryMaxSizes));
    EXPECT_SUCCESS(api_->synTensorSetDeviceDataType(tensor, syn_type_float));
    if (!persistent) return tensor;
    synSectionHandle section = nullptr;
    EXPECT_SUCCESS(api_->synSectionCreate(&section, 0, graph_));
    EXPECT_SUCCESS(api_->synTensorAssignToSection(tensor, section, 0));
    uint64_t bytes = 4;
    for (const uint64_t size : sizes) bytes *= size;
    synLaunchTensorInfo entry{};
    entry.tensorName = name;
    entry.tensorType = DATA_TENSOR;
    entry.pTensorAddress = Allocate(bytes);
    EXPECT_SUCCESS(api_->synMemsetD8Async(entry.pTensorAddress, 0, bytes, stream_));
    table_.push_back(entry);
    return tensor;
  }
  void Node(const char* guid, const char* name, std::vector<synTensor> in, synTensor out,
            const void* params = nullptr, unsigned size = 0) {
    EXPECT_SUCCESS(api_->synNodeCreate(graph_, in.data(), &out, static_cast<uint32_t>(in.size()), 1,
                                       params, size, guid, name, nullptr, nullptr));
  }
  // Launches the graph `times` under a trace; returns intervals of the device by name.
  std::multimap<std::string, synTraceEvent> Trace(int times) {
    synRecipeHandle recipe = nullptr;
    EXPECT_SUCCESS(api_->synGraphCompile(&recipe, graph_, "traced", nullptr));
    std::vector<const char*> names;
    for (const synLaunchTensorInfo& entry : table_) names.push_back(entry.tensorName);
    std::vector<uint64_t> ids(table_.size());
    EXPECT_SUCCESS(api_->synTensorRetrieveIds(recipe, names.data(), ids.data(),
                                              static_cast<uint32_t>(ids.size())));
    for (size_t i = 0; i < ids.size(); ++i) table_[i].tensorId = ids[i];
    uint64_t workspace_bytes = 0;
    EXPECT_SUCCESS(api_->synWorkspaceGetSize(&workspace_bytes, recipe));
    const uint64_t workspace = workspace_bytes == 0 ? 0 : Allocate(workspace_bytes);
    EXPECT_SUCCESS(api_->synStreamSynchronize(stream_));
    EXPECT_SUCCESS(api_->synProfilerStart(synTraceAll, device_));
    for (int i = 0; i < times; ++i) {
      EXPECT_SUCCESS(api_->synLaunch(stream_, table_.data(), static_cast<uint32_t>(table_.size()),
                                     workspace, recipe, 0));
    }
    EXPECT_SUCCESS(api_->synStreamSynchronize(stream_));
    EXPECT_SUCCESS(api_->synProfilerStop(synTraceAll, device_));
    return Read();
  }
  std::multimap<std::string, synTraceEvent> Read() {
    size_t size = 0, count = 0;
    EXPECT_SUCCESS(api_->synProfilerGetTrace(synTraceDevice, device_, synTraceFormatTEF, nullptr,
                                             &size, &count));
    buffer_.resize(size / sizeof(max_align_t) + 1);
    EXPECT_SUCCESS(api_->synProfilerGetTrace(synTraceDevice, device_, synTraceFormatTEF,
                                             buffer_.data(), &size, &count));
    std::multimap<std::string, synTraceEvent> events;
    const auto* raw = reinterpret_cast<const synTraceEvent*>(buffer_.data());
    for (size_t i = 0; i < count; ++i) {
      if (raw[i].type == 'X') events.emplace(raw[i].name, raw[i]);
    }
    return events;
  }
  static const synTraceEventArg* Find(const synTraceEvent& event, const std::string& key) {
    const synTraceEventExtraArgs& extra = event.arguments.event.extraArgs;
    for (uint8_t i = 0; i < extra.count; ++i) {
      if (key == extra.args[i].key) return &extra.args[i];
    }
    return nullptr;
  }
  static uint64_t Argument(const synTraceEvent& event, const std::string& key) {
    const synTraceEventArg* const found = Find(event, key);
    if (found != nullptr) return found->value.u64;
    ADD_FAILURE() << event.name << " has no argument " << key;
    return 0;
  }

  synGraphHandle graph_ = nullptr;
  std::vector<synLaunchTensorInfo> table_;
  std::vector<max_align_t> buffer_;
};

TEST_F(TraceTest, MatrixProductCountsItsWork) {
  constexpr uint64_t kM = 64, kN = 48, kK = 32;
  const synTensor a = Tensor("a", {kK, kM}, true);
  const synTensor b = Tensor("b", {kN, kK}, true);
  const synTensor c = Tensor("c", {kN, kM}, true);
  const synGEMMParams params{};
  Node("gemm", "product", {a, b}, c, &params, sizeof(params));
  const auto events = Trace(3);
  ASSERT_EQ(events.count("product"), 3u);
  ASSERT_EQ(events.count("traced"), 3u);
  const synTraceEvent& launch = events.find("traced")->second;
  EXPECT_STREQ(launch.category, "launch");
  EXPECT_GE(Argument(launch, "kernels"), 1u);
  const synTraceEvent& kernel = events.find("product")->second;
  EXPECT_STREQ(kernel.category, "mme");
  EXPECT_STREQ(kernel.arguments.event.recipeName, "traced");
  EXPECT_EQ(Argument(kernel, "flops"), 2 * kM * kN * kK);
  EXPECT_EQ(Argument(kernel, "bytes"), 4 * (kM * kK + kK * kN + kM * kN));
  EXPECT_GE(Argument(kernel, "tasks"), 1u);
  EXPECT_EQ(Argument(kernel, "work"), Argument(launch, "work"));
  EXPECT_STREQ(Find(kernel, "factors")->value.str, "f32");
  EXPECT_EQ(Find(kernel, "task_ns"), nullptr);
  uint32_t threads = 0;
  EXPECT_SUCCESS(api_->synEmulatorGetComputeThreads(&threads));
  EXPECT_EQ(Argument(launch, "threads"), threads);
  EXPECT_GT(Argument(launch, "cpu_ns"), 0u);
  // The times are measured, and lie inside the launch.
  EXPECT_GT(kernel.duration, 0);
  EXPECT_GT(Argument(kernel, "busy_ns"), 0u);
  EXPECT_LE(Argument(kernel, "busy_ns"), threads * (kernel.duration * 1000 + 1));
  EXPECT_GE(kernel.timestamp, launch.timestamp);
  EXPECT_LE(kernel.timestamp + kernel.duration, launch.timestamp + launch.duration);
}

TEST_F(TraceTest, FusedNodesAreListedAndCounted) {
  constexpr uint64_t kElements = 1000;
  const synTensor x = Tensor("x", {kElements}, true);
  const synTensor y = Tensor("y", {kElements}, true);
  const synTensor sum = Tensor("sum", {kElements}, false);
  const synTensor out = Tensor("out", {kElements}, true);
  Node("add_fwd_f32", "first", {x, y}, sum);
  Node("relu_fwd_f32", "second", {sum}, out);
  const auto events = Trace(1);
  ASSERT_EQ(events.count("first+second"), 1u);
  const synTraceEvent& kernel = events.find("first+second")->second;
  EXPECT_STREQ(kernel.category, "tpc");
  EXPECT_EQ(Argument(kernel, "flops"), 2 * kElements);
  EXPECT_EQ(Argument(kernel, "bytes"), 3 * 4 * kElements);
}

TEST_F(TraceTest, TaskTimesAreTakenPieceByPiece) {
  constexpr uint64_t kRows = 512, kColumns = 768;
  const synTensor x = Tensor("x", {kColumns, kRows}, true);
  const synTensor y = Tensor("y", {kColumns, kRows}, true);
  Node("exp_fwd_f32", "exp", {x}, y);
  EXPECT_SUCCESS(api_->synEmulatorTraceTasks(1));
  const auto events = Trace(1);
  EXPECT_SUCCESS(api_->synEmulatorTraceTasks(0));
  const synTraceEvent& kernel = events.find("exp")->second;
  const uint64_t grain = Argument(kernel, "grain");
  const uint64_t pieces = (Argument(kernel, "tasks") + grain - 1) / grain;
  ASSERT_GT(pieces, 1u);
  ASSERT_NE(Find(kernel, "task_ns"), nullptr);
  std::stringstream text(Find(kernel, "task_ns")->value.str);
  uint64_t count = 0, sum = 0;
  for (std::string one; std::getline(text, one, ','); ++count) sum += std::stoull(one);
  EXPECT_EQ(count, std::min<uint64_t>(pieces, 1024));
  EXPECT_GT(sum, 0u);
  EXPECT_LE(sum, kernel.duration * 1000 + 1);
}

TEST_F(TraceTest, CopiesAreOnTheDmaRow) {
  const uint64_t from = Allocate(4096);
  const uint64_t to = Allocate(4096);
  EXPECT_SUCCESS(api_->synProfilerStart(synTraceDevice, device_));
  EXPECT_SUCCESS(api_->synMemsetD32Async(from, 5, 1024, stream_));
  EXPECT_SUCCESS(api_->synMemCopyAsync(stream_, from, 1000, to, DRAM_TO_DRAM));
  EXPECT_SUCCESS(api_->synStreamSynchronize(stream_));
  EXPECT_SUCCESS(api_->synProfilerStop(synTraceDevice, device_));
  const auto events = Read();
  ASSERT_EQ(events.count("fill"), 1u);
  ASSERT_EQ(events.count("copy on device"), 1u);
  EXPECT_EQ(Argument(events.find("fill")->second, "bytes"), 4096u);
  EXPECT_EQ(Argument(events.find("copy on device")->second, "bytes"), 1000u);
  EXPECT_EQ(events.find("fill")->second.engineIndex % 3, 2u);
}

TEST_F(TraceTest, PeakIsMeasured) {
  synEmulatorPeak peak{};
  EXPECT_STATUS(synInvalidArgument, api_->synEmulatorMeasurePeak(nullptr));
  EXPECT_SUCCESS(api_->synEmulatorMeasurePeak(&peak));
  // The value is between a very slow core and a very large machine.
  EXPECT_GT(peak.f32FlopsPerSecond, 1e8);
  EXPECT_LT(peak.f32FlopsPerSecond, 1e15);
  EXPECT_GT(peak.bf16FlopsPerSecond, 0.5 * peak.f32FlopsPerSecond);
  EXPECT_LT(peak.bf16FlopsPerSecond, 100 * peak.f32FlopsPerSecond);
  EXPECT_GT(peak.bytesPerSecond, 1e7);
  EXPECT_LT(peak.bytesPerSecond, 1e14);
}

}  // namespace
}  // namespace hpu
