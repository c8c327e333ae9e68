#include "benchmarks/gemm_peak/machine.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <chrono>
#include <ctime>
#include <thread>

#include "benchmarks/gemm_peak/amx_peak.h"
#include "graph_compiler/contraction/ir_emitter.h"
#include "recipe/isa.h"

namespace hpu::graph_compiler {
namespace {

constexpr int kPeakChains = 12;  // independent sums hide the latency
constexpr int64_t kPeakSteps = 1 << 20;
constexpr int64_t kReadBytes = 1 << 20;
constexpr int64_t kReadTasks = 64;

double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

using NextSum = std::function<llvm::Value*(IrEmitter&, llvm::Value* sum, llvm::Value* factor)>;

void AddPeakKernel(KernelModule& module, const char* name, const NextSum& next_sum) {
  module.AddKernel(name, [&](llvm::IRBuilder<>& builder, const KernelFrame& frame, llvm::Value*) {
    IrEmitter e(builder, module.target());
    const int lanes = module.target().f32_lanes;
    llvm::Value* factor = e.LoadF32(frame.Operand(builder, 0), lanes);
    const Values sums = e.For(e.Int(0), e.Int(kPeakSteps), 1, Values(kPeakChains, factor),
                              [&](llvm::Value*, const Values& carried) {
                                Values next;
                                for (llvm::Value* sum : carried)
                                  next.push_back(next_sum(e, sum, factor));
                                return next;
                              });
    for (int i = 0; i < kPeakChains; ++i) {
      e.StoreF32(e.Address(frame.scratch, i * lanes * 4), sums[i]);
    }
  });
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

// Pairs of bf16 in every f32 lane.
llvm::Value* DotPairs(IrEmitter& e, llvm::Value* sum) {
  llvm::Type* halves = llvm::FixedVectorType::get(e.b.getBFloatTy(), 2 * e.lanes());
  llvm::Value* one = llvm::ConstantFP::get(halves, 1.0);
  return e.b.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, {}, {sum, one, one});
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

Machine::Machine(IsaLevel isa, int threads) : threads_(threads) {
  KernelModule module(TargetInfoFor(isa));
  lanes_ = module.target().f32_lanes;
  AddPeakKernel(module, "peak", [](IrEmitter& e, llvm::Value* sum, llvm::Value* factor) {
    return e.Fma(sum, factor, factor);
  });
  AddReadKernel(module);
  if (module.target().avx512_bf16) {
    bf16_instructions_ = "AVX512_BF16";
    AddPeakKernel(module, "peak_bf16",
                  [](IrEmitter& e, llvm::Value* sum, llvm::Value*) { return DotPairs(e, sum); });
  }
  if (HostIsaLevel() == IsaLevel::kV4Amx) bf16_instructions_ = "AMX";
  const auto image = module.Finish();
  HPU_CHECK(image.ok(), "peak kernels");
  entries_ = image->entry_offsets;
  image_ = std::make_unique<MappedImage>(image->code);
  memory_ = std::make_unique<TestBuffer>(MemoryType::kF32, kReadTasks * kReadBytes / 4);
  memory_->FillRandom(1, 0.1f, 0.2f);
}

double Machine::KernelGflops(uint32_t entry, double flops_per_lane, int repeat) const {
  const double seconds = Seconds(threads_, [&] {
    OnThreads(threads_,
              [&](int) { image_->Run(entry, {memory_->data()}, 0, repeat, kPeakChains * 64); });
  });
  return 1e-9 * flops_per_lane * kPeakChains * lanes_ * kPeakSteps * repeat * threads_ / seconds;
}

double Machine::PeakGflops(int repeat) const { return KernelGflops(entries_[0], 2, repeat); }

double Machine::Bf16PeakGflops(int repeat) const {
  if (bf16_instructions_ == "f32") return PeakGflops(repeat);
  if (bf16_instructions_ == "AVX512_BF16") return KernelGflops(entries_[2], 4, repeat);
  double flops = 0;
  const double seconds = Seconds(threads_, [&] {
    OnThreads(threads_, [&](int i) {
      const double done = RunAmxBf16(repeat);
      if (i == 0) flops = done;
    });
  });
  return 1e-9 * flops * threads_ / seconds;
}

double Machine::ReadGbytes() const {
  const double seconds = Seconds(threads_, [&] {
    OnThreads(threads_, [&](int i) {
      image_->Run(entries_[1], {memory_->data()}, kReadTasks * i / threads_,
                  kReadTasks * (i + 1) / threads_, 8 * 64);
    });
  });
  return 1e-9 * kReadTasks * kReadBytes / seconds;
}

}  // namespace hpu::graph_compiler
