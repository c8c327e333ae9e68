// Measures the share of the machine's multiply-add peak that generated contractions reach.
//
//   gemm_peak [--isa v2|v3|v4|v4-bf16|v4-amx] [--threads N] [--json] [--only TEXT] [--rounds N]
//   gemm_peak --machine [--threads N]     # JSON: the machine's own peaks, no contraction
//
// Peak and contraction are measured in turn, in the type of the operands, so that a machine whose
// speed drifts still gives a meaningful ratio. One-row products are compared with the measured read
// bandwidth instead.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "benchmarks/gemm_peak/cases.h"
#include "benchmarks/gemm_peak/machine.h"

namespace hpu::graph_compiler {
namespace {

struct Options {
  IsaLevel isa = RunnableLevels().back();
  int threads = 1;
  bool json = false;
  bool machine_only = false;
  int rounds = 8;  // set many where another program looks at the running code
  std::string only;
};

struct Result {
  std::string name;
  double gflops = 0, peak = 0, gbytes = 0, bandwidth = 0, compile_ms = 0;
  size_t code_bytes = 0;
  double time_us = 0;
};

Result Measure(const Case& test, const Options& options, const Machine& machine) {
  CompiledContraction compiled(options.isa, test.emit);
  std::vector<std::unique_ptr<TestBuffer>> storage;
  std::vector<TestBuffer*> buffers;
  for (const int64_t elements : test.buffer_elements) {
    storage.push_back(std::make_unique<TestBuffer>(test.type, elements));
    storage.back()->FillRandom(static_cast<uint32_t>(storage.size()));
    buffers.push_back(storage.back().get());
  }
  compiled.Pack(buffers);
  double flops = 0, bytes = 0;
  for (const KernelLaunch& launch : compiled.kernels().launches) {
    flops += static_cast<double>(launch.flops);
    bytes += static_cast<double>(launch.bytes);
  }
  Result result{.name = test.name};
  result.compile_ms = compiled.compile_ms();
  result.code_bytes = compiled.code_bytes();
  double best = 1e9;
  compiled.RunPacked(buffers, 1, false);
  for (int round = 0; round < options.rounds; ++round) {
    result.peak = std::max(result.peak, test.type == MemoryType::kBF16 ? machine.Bf16PeakGflops()
                                                                       : machine.PeakGflops());
    result.bandwidth = std::max(result.bandwidth, machine.ReadGbytes());
    const int repeat = std::max(1, static_cast<int>(1e9 / flops));
    const double seconds = Seconds(options.threads, [&] {
      OnThreads(options.threads, [&](int i) {
        for (int r = 0; r < repeat; ++r) compiled.RunShare(buffers, i, options.threads);
      });
    });
    best = std::min(best, seconds / repeat);
  }
  result.gflops = flops / best * 1e-9;
  result.gbytes = bytes / best * 1e-9;
  result.time_us = best * 1e6;
  return result;
}

void Print(const Result& r, bool json, bool first) {
  if (json) {
    std::printf(
        "%s\n  {\"name\": \"%s\", \"us\": %.2f, \"gflops\": %.2f, \"peak_gflops\": %.2f, "
        "\"gbytes\": %.2f, \"read_gbytes\": %.2f, \"compile_ms\": %.2f, \"code_bytes\": %zu}",
        first ? "" : ",", r.name.c_str(), r.time_us, r.gflops, r.peak, r.gbytes, r.bandwidth,
        r.compile_ms, r.code_bytes);
    return;
  }
  std::printf(
      "%-34s %9.1f us %7.1f GFLOP/s %4.0f %% of peak %6.1f GB/s %4.0f %% of read  "
      "compile %5.1f ms  code %zu B\n",
      r.name.c_str(), r.time_us, r.gflops, 100 * r.gflops / r.peak, r.gbytes,
      100 * r.gbytes / r.bandwidth, r.compile_ms, r.code_bytes);
}

// This takes about half a second: it takes the best of short rounds, f32 and bf16 in turn.
void PrintMachine(const Machine& machine, int threads) {
  constexpr int kRounds = 8;
  constexpr int kRepeat = 10;
  double f32 = 0, bf16 = 0, read = 0;
  for (int round = 0; round < kRounds; ++round) {
    f32 = std::max(f32, machine.PeakGflops(kRepeat));
    bf16 = std::max(bf16, machine.Bf16PeakGflops(kRepeat));
    read = std::max(read, machine.ReadGbytes());
  }
  std::printf(
      "{\"threads\": %d, \"f32_gflops\": %.2f, \"bf16_gflops\": %.2f, "
      "\"bf16_instructions\": \"%s\", \"read_gbytes\": %.2f}\n",
      threads, f32, bf16, machine.bf16_instructions(), read);
}

int Main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    const std::vector<IsaLevel> levels = RunnableLevels();
    const auto level = std::find_if(levels.begin(), levels.end(),
                                    [&](IsaLevel known) { return LevelName(known) == value; });
    if (flag == "--json") {
      options.json = true;
    } else if (flag == "--machine") {
      options.machine_only = true;
    } else if (flag == "--isa" && level != levels.end()) {
      options.isa = *level;
      ++i;
    } else if (flag == "--threads" && std::atoi(value.c_str()) > 0) {
      options.threads = std::atoi(value.c_str());
      ++i;
    } else if (flag == "--rounds" && std::atoi(value.c_str()) > 0) {
      options.rounds = std::atoi(value.c_str());
      ++i;
    } else if (flag == "--only" && !value.empty()) {
      options.only = value;
      ++i;
    } else {
      std::fprintf(stderr,
                   "usage: gemm_peak [--isa v2|v3|v4|v4-bf16|v4-amx] [--threads N] [--json]\n"
                   "                 [--only TEXT] [--rounds N]\n"
                   "       gemm_peak --machine [--threads N]\n");
      return 2;
    }
  }
  const Machine machine(options.isa, options.threads);
  if (options.machine_only) {
    PrintMachine(machine, options.threads);
    return 0;
  }
  if (options.json) {
    std::printf("{\"isa\": \"%s\", \"threads\": %d, \"results\": [", LevelName(options.isa).c_str(),
                options.threads);
  } else {
    std::printf("isa %s, %d threads, multiply-add peak %.1f GFLOP/s, read %.1f GB/s\n",
                LevelName(options.isa).c_str(), options.threads, machine.PeakGflops(),
                machine.ReadGbytes());
  }
  bool first = true;
  for (const Case& test : Cases()) {
    if (test.name.find(options.only) == std::string::npos) continue;
    Print(Measure(test, options, machine), options.json, first);
    first = false;
  }
  if (options.json) std::printf("\n]}\n");
  return 0;
}

}  // namespace
}  // namespace hpu::graph_compiler

int main(int argc, char** argv) { return hpu::graph_compiler::Main(argc, argv); }
