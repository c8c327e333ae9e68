#include "synapse/emulator/profiler/profiler.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <sstream>

namespace hpu::emulator {
namespace {

KernelLaunch Kernel(const std::string& name) {
  KernelLaunch kernel;
  kernel.name = name;
  kernel.engine = Engine::kMme;
  kernel.flops = 64;
  return kernel;
}

TEST(ProfilerTest, ExportFollowsTheBufferLayout) {
  Profiler profiler;
  profiler.Start(synTraceAll);
  profiler.AddKernel("graph", Kernel("gemm \"1\""), 2000, 5500);
  profiler.AddHost("synLaunch", 1000, 1500, {{"k", "v"}});
  size_t size = 0, count = 0;
  profiler.Export(synTraceAll, nullptr, &size, &count);
  ASSERT_EQ(count, 2u);
  std::vector<max_align_t> storage(size / sizeof(max_align_t) + 1);
  auto* buffer = reinterpret_cast<char*>(storage.data());
  profiler.Export(synTraceAll, buffer, &size, &count);
  const auto* events = reinterpret_cast<const synTraceEvent*>(buffer);
  EXPECT_STREQ(events[0].name, "synLaunch");
  EXPECT_STREQ(events[1].name, "gemm \"1\"");
  EXPECT_STREQ(events[1].category, "mme");
  EXPECT_EQ(events[1].type, 'X');
  EXPECT_EQ(static_cast<double>(events[1].timestamp), 2.0);
  EXPECT_EQ(static_cast<double>(events[1].duration), 3.5);
  EXPECT_STREQ(events[1].arguments.event.recipeName, "graph");
  size_t tail[2];
  std::memcpy(tail, buffer + size - sizeof(tail), sizeof(tail));
  EXPECT_EQ(tail[0], 2u);
  profiler.Export(synTraceDevice, nullptr, &size, &count);
  EXPECT_EQ(count, 1u);
}

TEST(ProfilerTest, JsonIsEscapedAndNamesTheHost) {
  Profiler profiler;
  profiler.Start(synTraceDevice);
  EXPECT_FALSE(profiler.host_tracing());
  profiler.AddKernel("graph", Kernel("gemm \"1\""), 2000, 5500);
  const std::string path = ::testing::TempDir() + "/synapse_profiler_test.json";
  ASSERT_TRUE(profiler.WriteJson(synTraceDevice, path).ok());
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_NE(text.str().find(R"("name": "gemm \"1\"", "cat": "mme", "pid": 1)"), std::string::npos)
      << text.str();
  EXPECT_NE(text.str().find(R"("ts": 2.0, "dur": 3.5)"), std::string::npos) << text.str();
  EXPECT_FALSE(profiler.WriteJson(synTraceDevice, "/nonexistent/trace.json").ok());
}

}  // namespace
}  // namespace hpu::emulator
