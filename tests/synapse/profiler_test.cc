#include "emulator/profiler/profiler.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include "emulator/profiler/trace_export.h"
#include "tests/synapse/test_recipes.h"

namespace hpu::emulator {
namespace {

// Returns a recipe named "graph" of two kernels on two engines.
std::shared_ptr<const Recipe> TwoKernels() {
  Recipe recipe = AddRecipe(16);
  recipe.name = "graph";
  recipe.kernels.push_back(recipe.kernels[0]);
  recipe.kernels[0].name = "gemm \"1\"";
  recipe.kernels[0].engine = Engine::kMme;
  recipe.kernels[0].tasks = 5;
  recipe.kernels[0].bytes = 300;
  recipe.kernels[0].flops = 64;
  recipe.kernels[0].factors = Factors::kBf16;
  recipe.kernels[1].name = "a+b";
  return std::make_shared<const Recipe>(std::move(recipe));
}

constexpr WorkOrigin kOrigin = {.stream = 1, .host_thread = 77, .number = 9, .queued_ns = 1500};

void AddTwoKernels(Profiler& profiler) {
  profiler.AddLaunch(TwoKernels(), kOrigin, {2000, 9000, 4, 5000},
                     {{2000, 5501, 6000, {40, 7}}, {6000, 8000}});
}

std::string Json(const Profiler& profiler, synTraceType type) {
  const std::string path = ::testing::TempDir() + "/synapse_profiler_test.json";
  EXPECT_TRUE(WriteTraceJson(profiler.Records(type), path).ok());
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string Summary(const TraceRecord& record) {
  return std::string(1, record.type) + " " + record.name + " " +
         std::to_string(static_cast<int>(record.process)) + "/" + std::to_string(record.lane) +
         " " + std::to_string(record.start_ns) + "-" + std::to_string(record.end_ns);
}

TEST(ProfilerTest, LaunchesBecomeRowsOfEnginesAndStreams) {
  Profiler profiler;
  profiler.Start(synTraceDevice);
  EXPECT_FALSE(profiler.host_tracing());
  EXPECT_TRUE(profiler.device_tracing());
  AddTwoKernels(profiler);
  std::vector<std::string> intervals;
  std::vector<std::string> names;
  for (const TraceRecord& record : profiler.Records(synTraceDevice)) {
    if (record.type == 'M') {
      names.push_back(std::get<std::string>(record.arguments.at(0).second));
    } else {
      intervals.push_back(Summary(record));
    }
  }
  // If starts are equal, the launch comes first, so that viewers nest it.
  EXPECT_EQ(intervals,
            (std::vector<std::string>{"X graph 2/1 2000-9000", "X gemm \"1\" 1/3 2000-5501",
                                      "X a+b 1/4 6000-8000"}));
  EXPECT_EQ(names,
            (std::vector<std::string>{"engines of the emulated device (CPU timings)",
                                      "MME, stream 1", "TPC, stream 1",
                                      "streams of the emulated device (CPU timings)", "stream 1"}));
  EXPECT_TRUE(profiler.Records(synTraceHost).empty());
}

TEST(ProfilerTest, ArrowsJoinTheCallAndTheLaunch) {
  Profiler profiler;
  profiler.Start(synTraceAll);
  AddTwoKernels(profiler);
  std::vector<std::string> arrows;
  for (const TraceRecord& record : profiler.Records(synTraceAll)) {
    if (record.type != 's' && record.type != 'f') continue;
    arrows.push_back(Summary(record));
    EXPECT_EQ(record.id, 9u);
  }
  EXPECT_EQ(arrows,
            (std::vector<std::string>{"s queued 0/77 1500-1500", "f queued 2/1 2000-2000"}));
}

TEST(ProfilerTest, ExportFollowsTheBufferLayout) {
  Profiler profiler;
  profiler.Start(synTraceAll);
  AddTwoKernels(profiler);
  profiler.AddHost("synLaunch", {1000, 1600}, {{"k", std::string("v")}, {"n", uint64_t{3}}});
  const std::vector<TraceRecord> records = profiler.Records(synTraceAll);
  size_t size = 0, count = 0;
  ExportEvents(records, nullptr, &size, &count);
  ASSERT_EQ(count, records.size());
  std::vector<max_align_t> storage(size / sizeof(max_align_t) + 1);
  auto* buffer = reinterpret_cast<char*>(storage.data());
  ExportEvents(records, buffer, &size, &count);
  const auto* events = reinterpret_cast<const synTraceEvent*>(buffer);
  std::map<std::string, const synTraceEvent*> by_name;
  for (size_t i = 0; i < count; ++i) {
    if (events[i].type == 'X') by_name[events[i].name] = &events[i];
  }
  const synTraceEvent& kernel = *by_name.at("gemm \"1\"");
  EXPECT_STREQ(kernel.category, "mme");
  EXPECT_EQ(kernel.timestamp, 2.0L);
  EXPECT_EQ(kernel.duration, static_cast<long double>(3501) / 1000);
  EXPECT_STREQ(kernel.arguments.event.recipeName, "graph");
  std::map<std::string, uint64_t> numbers;
  std::map<std::string, std::string> texts;
  const synTraceEventExtraArgs& extra = kernel.arguments.event.extraArgs;
  for (uint8_t i = 0; i < extra.count; ++i) {
    if (extra.args[i].type == SYN_TRACE_ARG_UINT64) {
      numbers[extra.args[i].key] = extra.args[i].value.u64;
    } else {
      texts[extra.args[i].key] = extra.args[i].value.str;
    }
  }
  EXPECT_EQ(texts, (std::map<std::string, std::string>{{"factors", "bf16"}, {"task_ns", "40,7"}}));
  EXPECT_EQ(numbers, (std::map<std::string, uint64_t>{{"tasks", 5},
                                                      {"grain", 16},
                                                      {"busy_ns", 6000},
                                                      {"bytes", 300},
                                                      {"flops", 64},
                                                      {"kernel", 0},
                                                      {"work", 9},
                                                      {"queued_ns", 1500},
                                                      {"host_thread", 77}}));
  const synTraceEventExtraArgs& host = by_name.at("synLaunch")->arguments.event.extraArgs;
  ASSERT_EQ(host.count, 2);
  EXPECT_EQ(host.args[0].type, SYN_TRACE_ARG_CHAR_PTR);
  EXPECT_STREQ(host.args[0].value.str, "v");
  EXPECT_STREQ(events[0].name, "process_name");
  EXPECT_STREQ(events[0].arguments.metadata.name, "host");
  size_t tail[2];
  std::memcpy(tail, buffer + size - sizeof(tail), sizeof(tail));
  EXPECT_EQ(tail[0], count);
  EXPECT_EQ(tail[1], 1u);
}

TEST(ProfilerTest, JsonIsEscapedAndKeepsNanoseconds) {
  Profiler profiler;
  profiler.Start(synTraceAll);
  AddTwoKernels(profiler);
  const std::string text = Json(profiler, synTraceDevice);
  EXPECT_NE(text.find(R"({"ph": "X", "name": "gemm \"1\"", "pid": 1, "tid": 3, "cat": "mme", )"
                      R"("ts": 2.000, "dur": 3.501, "args": {"graph name": "graph", "tasks": 5, )"
                      R"("grain": 16, "bytes": 300, "flops": 64, "factors": "bf16", "kernel": 0, )"
                      R"("busy_ns": 6000, "task_ns": "40,7", )"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(R"("name": "thread_name", "pid": 1, "tid": 3, "args": )"
                      R"({"name": "MME, stream 1"}})"),
            std::string::npos)
      << text;
  EXPECT_FALSE(WriteTraceJson({}, "/dev/null/trace.json").ok());
}

TEST(ProfilerTest, LaunchesSayThreadsAndCpuTime) {
  Profiler profiler;
  profiler.Start(synTraceDevice);
  AddTwoKernels(profiler);
  EXPECT_NE(Json(profiler, synTraceDevice).find(R"("kernels": 2, "threads": 4, "cpu_ns": 5000)"),
            std::string::npos);
}

TEST(ProfilerTest, StartDropsWhatAnEarlierTraceCollected) {
  Profiler profiler;
  profiler.Start(synTraceAll);
  AddTwoKernels(profiler);
  profiler.AddHost("call", {1, 2});
  profiler.Start(synTraceDevice);
  EXPECT_TRUE(profiler.Records(synTraceDevice).empty());
  EXPECT_EQ(profiler.Records(synTraceHost).size(), 3u);  // two names, one call
}

TEST(ProfilerTest, SessionOutlivesTracesInIt) {
  Profiler profiler;
  EXPECT_FALSE(profiler.EndSession());
  profiler.StartSession();
  AddTwoKernels(profiler);
  profiler.Start(synTraceAll);
  profiler.Stop(synTraceAll);
  EXPECT_TRUE(profiler.device_tracing());
  EXPECT_NE(Json(profiler, synTraceAll).find("gemm"), std::string::npos);
  EXPECT_TRUE(profiler.EndSession());
  EXPECT_FALSE(profiler.device_tracing());
  EXPECT_FALSE(profiler.EndSession());
}

TEST(ProfilerTest, OriginsAreNumberedWhileTracing) {
  Profiler profiler;
  EXPECT_EQ(profiler.Origin(2).number, 0u);
  EXPECT_EQ(profiler.Origin(2).stream, 2u);
  profiler.Start(synTraceDevice);
  const WorkOrigin first = profiler.Origin(2);
  EXPECT_NE(first.number, 0u);
  EXPECT_NE(profiler.Origin(2).number, first.number);
  EXPECT_NE(first.queued_ns, 0u);
}

TEST(ProfilerTest, AFullTraceSaysWhatItLost) {
  Profiler profiler;
  profiler.Start(synTraceAll);
  profiler.AddHost("kept", {1, 2});
  Recipe many = AddRecipe(16);
  many.kernels.resize(1 << 20, many.kernels[0]);
  const auto recipe = std::make_shared<const Recipe>(std::move(many));
  profiler.AddLaunch(recipe, kOrigin, {2, 3}, std::vector<KernelTrace>(1 << 20));
  const std::string text = Json(profiler, synTraceAll);
  EXPECT_NE(text.find(R"("dropped_records", "pid": 0, "tid": 0, "args": {"name": "1048577"})"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("kept"), std::string::npos);
}

}  // namespace
}  // namespace hpu::emulator
