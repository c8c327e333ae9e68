#include "benchmarks/gemm_peak/machine.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <thread>

#include "graph_compiler/contraction/tiles/ir_emitter.h"
#include "recipe/isa.h"

namespace hpu::graph_compiler {
namespace {

constexpr double kRepeatFlops = 4e8;  // per thread
constexpr int64_t kReadBytes = 1 << 20;
constexpr int64_t kReadTasks = 64;

double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void AddReadKernel(KernelModule& module) {
  module.AddKernel(
      "read", [&](llvm::IRBuilder<>& builder, const KernelFrame& frame, llvm::Value* task) {
        IrEmitter e(builder, module.target());
        const int lanes = module.target().f32_lanes;
        llvm::Value* base = e.Address(frame.Operand(builder, 0), e.Mul(task, kReadBytes));
        const Values sums = e.For(
            e.Int(0), e.Int(kReadBytes), 8 * lanes * 4, Values(8, e.Zero(lanes)),
            [&](llvm::Value* at, const Values& carried) {
              Values next;
              for (int i = 0; i < 8; ++i) {
                next.push_back(e.b.CreateFAdd(
                    carried[i], e.LoadF32(e.Address(e.Address(base, at), i * lanes * 4), lanes)));
              }
              return next;
            });
        for (int i = 0; i < 8; ++i) e.StoreF32(e.Address(frame.scratch, i * lanes * 4), sums[i]);
      });
}

}  // namespace

double Seconds(int threads, const std::function<void()>& run) {
  using Clock = std::chrono::steady_clock;
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

Machine::Machine(IsaLevel isa, int threads)
    : threads_(threads),
      f32_(emulator::F32PeakLoop(isa)),
      bf16_(emulator::Bf16PeakLoop(std::min(isa, HostIsaLevel().value_or(IsaLevel::kV2)))) {
  KernelModule module(TargetInfoFor(isa));
  AddReadKernel(module);
  const auto image = module.Finish(SizesAs::kSymbols);
  HPU_CHECK(image.ok(), "read kernel");
  read_entry_ = image->entry_offsets[0];
  image_ = std::make_unique<MappedImage>(image->code);
  memory_ = std::make_unique<TestBuffer>(MemoryType::kF32, kReadTasks * kReadBytes / 4);
  memory_->FillRandom(1, 0.1f, 0.2f);
}

double Machine::Gflops(const emulator::PeakLoop& loop, int repeat) const {
  const auto rounds = static_cast<int64_t>(kRepeatFlops * repeat / loop.flops_per_round);
  const double seconds =
      Seconds(threads_, [&] { OnThreads(threads_, [&](int) { loop.run(rounds); }); });
  return 1e-9 * loop.flops_per_round * static_cast<double>(rounds) * threads_ / seconds;
}

double Machine::ReadGbytes() const {
  const double seconds = Seconds(threads_, [&] {
    OnThreads(threads_, [&](int i) {
      image_->Run(read_entry_, {memory_->data()}, kReadTasks * i / threads_,
                  kReadTasks * (i + 1) / threads_, 8 * 64);
    });
  });
  return 1e-9 * kReadTasks * kReadBytes / seconds;
}

}  // namespace hpu::graph_compiler
