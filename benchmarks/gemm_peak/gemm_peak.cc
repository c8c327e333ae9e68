// Share of the machine's multiply-add peak that generated contractions reach.
//
//   gemm_peak [--isa v2|v3|v4] [--threads N] [--json] [--only TEXT]
//
// Peak and contraction are measured in turn, so that a machine whose speed drifts still gives a
// meaningful ratio. One-row products are compared with the measured read bandwidth instead.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <thread>

#include "benchmarks/gemm_peak/cases.h"
#include "synapse/emulator/graph_compiler/contraction/ir_emitter.h"
#include "tests/contraction/harness.h"

namespace hpu::emulator {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  IsaLevel isa = RunnableLevels().back();
  int threads = 1;
  bool json = false;
  std::string only;
};

double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// One thread is timed by its own CPU time, which other processes disturb less.
double Seconds(int threads, const std::function<void()>& run) {
  const auto start = Clock::now();
  const double cpu_start = ThreadSeconds();
  run();
  if (threads == 1) return ThreadSeconds() - cpu_start;
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void OnThreads(int threads, const std::function<void(int)>& run) {
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(run, i);
  run(0);
  for (std::thread& thread : others) thread.join();
}

constexpr int kPeakChains = 12;
constexpr int64_t kPeakSteps = 1 << 20;

// Kernels that do nothing but multiply and add, and nothing but read.
class Machine {
 public:
  explicit Machine(const Options& options) : options_(options) {
    KernelModule module(TargetInfoFor(options.isa));
    lanes_ = module.target().f32_lanes;
    module.AddKernel(
        "peak", [&](llvm::IRBuilder<>& builder, const KernelFrame& frame, llvm::Value*) {
          IrEmitter e(builder, module.target());
          llvm::Value* factor = e.LoadF32(frame.Operand(builder, 0), lanes_);
          const Values sums = e.For(e.Int(0), e.Int(kPeakSteps), 1, Values(kPeakChains, factor),
                                    [&](llvm::Value*, const Values& carried) {
                                      Values next;
                                      for (llvm::Value* sum : carried)
                                        next.push_back(e.Fma(sum, factor, factor));
                                      return next;
                                    });
          for (int i = 0; i < kPeakChains; ++i) {
            e.StoreF32(e.Address(frame.scratch, i * lanes_ * 4), sums[i]);
          }
        });
    module.AddKernel("read", [&](llvm::IRBuilder<>& builder, const KernelFrame& frame,
                                 llvm::Value* task) {
      IrEmitter e(builder, module.target());
      llvm::Value* base = e.Address(frame.Operand(builder, 0), e.Mul(task, kReadBytes));
      const int step = 8 * lanes_ * 4;
      const Values sums = e.For(
          e.Int(0), e.Int(kReadBytes), step, Values(8, e.Zero(lanes_)),
          [&](llvm::Value* at, const Values& carried) {
            Values next;
            for (int i = 0; i < 8; ++i) {
              next.push_back(e.b.CreateFAdd(
                  carried[i], e.LoadF32(e.Address(e.Address(base, at), i * lanes_ * 4), lanes_)));
            }
            return next;
          });
      for (int i = 0; i < 8; ++i) {
        e.StoreF32(e.Address(frame.scratch, i * lanes_ * 4), sums[i]);
      }
    });
    const auto image = module.Finish();
    HPU_CHECK(image.ok(), "peak kernels");
    entries_ = image->entry_offsets;
    image_ = std::make_unique<MappedImage>(image->code);
    memory_ = std::make_unique<TestBuffer>(MemoryType::kF32, kReadTasks * kReadBytes / 4);
    memory_->FillRandom(1, 0.1f, 0.2f);
  }

  double PeakGflops() const {
    const double seconds = Seconds(options_.threads, [&] {
      OnThreads(options_.threads,
                [&](int) { image_->Run(entries_[0], {memory_->data()}, 0, 1, kPeakChains * 64); });
    });
    return 2e-9 * kPeakChains * lanes_ * kPeakSteps * options_.threads / seconds;
  }

  double ReadGbytes() const {
    const double seconds = Seconds(options_.threads, [&] {
      OnThreads(options_.threads, [&](int i) {
        image_->Run(entries_[1], {memory_->data()}, kReadTasks * i / options_.threads,
                    kReadTasks * (i + 1) / options_.threads, 8 * 64);
      });
    });
    return 1e-9 * kReadTasks * kReadBytes / seconds;
  }

 private:
  static constexpr int64_t kReadBytes = 1 << 20;
  static constexpr int64_t kReadTasks = 64;
  const Options& options_;
  int lanes_ = 0;
  std::vector<uint32_t> entries_;
  std::unique_ptr<MappedImage> image_;
  std::unique_ptr<TestBuffer> memory_;
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
    storage.push_back(std::make_unique<TestBuffer>(MemoryType::kF32, elements));
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
  for (int round = 0; round < 8; ++round) {
    result.peak = std::max(result.peak, machine.PeakGflops());
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

int Main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--json") {
      options.json = true;
    } else if (flag == "--isa" && (value == "v2" || value == "v3" || value == "v4")) {
      options.isa = static_cast<IsaLevel>(value[1] - '0');
      ++i;
    } else if (flag == "--threads" && std::atoi(value.c_str()) > 0) {
      options.threads = std::atoi(value.c_str());
      ++i;
    } else if (flag == "--only" && !value.empty()) {
      options.only = value;
      ++i;
    } else {
      std::fprintf(stderr,
                   "usage: gemm_peak [--isa v2|v3|v4] [--threads N] [--json] [--only TEXT]\n");
      return 2;
    }
  }
  const Machine machine(options);
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
}  // namespace hpu::emulator

int main(int argc, char** argv) { return hpu::emulator::Main(argc, argv); }
