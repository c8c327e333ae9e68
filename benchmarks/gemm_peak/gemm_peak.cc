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

struct Case {
  std::string name;
  EmitFn emit;
  std::vector<int64_t> buffer_elements;  // f32; the last one is written
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

// Many small products: A [batch, m, k], B [batch, k, n].
Case BatchGemm(int64_t batch, int64_t m, int64_t n, int64_t k) {
  GemmSpec spec;
  spec.batch = {batch};
  spec.m = m;
  spec.n = n;
  spec.k = k;
  spec.a.buffer = Persistent(0);
  spec.a.batch_strides = {m * k};
  spec.a.row_stride = k;
  spec.a.col_stride = 1;
  spec.b.buffer = Persistent(1);
  spec.b.batch_strides = {k * n};
  spec.b.row_stride = n;
  spec.b.col_stride = 1;
  spec.epilogue = StoreBody(MemoryType::kF32, {m * n, n, 1});
  spec.epilogue_operands = {Persistent(2)};
  spec.name = "batch_gemm";
  return {"batch " + std::to_string(batch) + " of " + std::to_string(m) + "x" + std::to_string(n) +
              "x" + std::to_string(k),
          [spec](ContractionEmitter& emitter) { return emitter.EmitGemm(spec); },
          {batch * m * k, batch * k * n, batch * m * n}};
}

Case Gemm(int64_t m, int64_t n, int64_t k, bool transposed, bool stable, bool bias_gelu = false) {
  GemmSpec spec;
  spec.m = m;
  spec.n = n;
  spec.k = k;
  spec.a.buffer = Persistent(0);
  spec.a.row_stride = k;
  spec.a.col_stride = 1;
  spec.b.buffer = Persistent(1);
  spec.b.row_stride = transposed ? 1 : n;
  spec.b.col_stride = transposed ? k : 1;
  spec.b.stable = stable;
  spec.b.buffer_bytes = static_cast<uint64_t>(4 * n * k);
  spec.epilogue = StoreBody(MemoryType::kF32, {n, 1});
  if (bias_gelu) {
    Body& body = spec.epilogue;
    BodyOp load = MakeOp(Opcode::kLoad);
    load.access.operand = 1;
    load.access.strides = {0, 1};
    const auto op = [&](Opcode code, std::vector<uint32_t> args, double imm = 0) {
      body.ops.push_back(MakeOp(code, std::move(args), imm));
      return static_cast<uint32_t>(body.ops.size() - 1);
    };
    body.ops.push_back(load);
    const uint32_t x = op(Opcode::kAdd, {0, 1});
    const uint32_t erf =
        op(Opcode::kErf, {op(Opcode::kMul, {x, op(Opcode::kConstF32, {}, M_SQRT1_2)})});
    const uint32_t half = op(Opcode::kMul, {x, op(Opcode::kConstF32, {}, 0.5)});
    body.stores[0].value = op(Opcode::kFma, {half, erf, half});
  }
  spec.epilogue_operands = {Persistent(2), Persistent(1)};
  spec.name = "gemm";
  return {"gemm " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) +
              (transposed ? " [n,k]" : " [k,n]") + (stable ? "" : " unpacked") +
              (bias_gelu ? " +bias gelu" : ""),
          [spec](ContractionEmitter& emitter) { return emitter.EmitGemm(spec); },
          {m * k, n * k, m * n}};
}

// Channels last, padding kernel / 2, weights (ko, c, kh, kw) dense.
Case Conv(int64_t size, int64_t c, int64_t ko, int64_t kernel, int64_t stride, int64_t groups = 1) {
  ConvSpec spec;
  spec.batch = 1;
  spec.in_h = spec.in_w = size;
  spec.in_c = c;
  spec.out_c = ko;
  spec.kernel_h = spec.kernel_w = kernel;
  spec.stride_h = spec.stride_w = stride;
  spec.pad_top = spec.pad_left = kernel / 2;
  spec.groups = groups;
  spec.out_h = spec.out_w = (size + 2 * (kernel / 2) - kernel) / stride + 1;
  spec.x = Persistent(0);
  spec.w = Persistent(1);
  spec.w_stable = true;
  const int64_t x_strides[] = {size * size * c, size * c, c, 1};
  const int64_t w_strides[] = {c / groups * kernel * kernel, kernel * kernel, kernel, 1};
  std::copy_n(x_strides, 4, spec.x_strides);
  std::copy_n(w_strides, 4, spec.w_strides);
  const int64_t out = spec.out_h;
  spec.epilogue = StoreBody(MemoryType::kF32, {out * out * ko, out * ko, ko, 1});
  spec.epilogue_operands = {Persistent(2)};
  spec.name = "conv";
  return {"conv " + std::to_string(kernel) + "x" + std::to_string(kernel) + " s" +
              std::to_string(stride) + " " + std::to_string(size) + " c" + std::to_string(c) + "-" +
              std::to_string(ko) + (groups > 1 ? " g" + std::to_string(groups) : ""),
          [spec](ContractionEmitter& emitter) { return emitter.EmitConv(spec); },
          {size * size * c, ko * c / groups * kernel * kernel, out * out * ko}};
}

// Operands as transformers lay them out: [batch, position, head, feature]; keys and values of a
// single query come from a cache [batch, head, position, feature].
Case Attention(int64_t heads, int64_t kv_repeat, int64_t m, int64_t n, int64_t d, bool causal) {
  AttentionSpec spec;
  spec.batch = 1;
  spec.heads = heads;
  spec.kv_repeat = kv_repeat;
  spec.m = m;
  spec.n = n;
  spec.d = spec.dv = d;
  spec.scale = 0.125f;
  spec.causal = causal;
  const int64_t key_heads = heads / kv_repeat;
  const int64_t strides[] = {0, d, heads * d, 1};
  const bool cached = m == 1;
  const int64_t key_strides[] = {0, cached ? n * d : d, cached ? d : key_heads * d, 1};
  std::copy_n(strides, 4, spec.q_strides);
  std::copy_n(strides, 4, spec.out_strides);
  std::copy_n(key_strides, 4, spec.k_strides);
  std::copy_n(key_strides, 4, spec.v_strides);
  spec.q = Persistent(0);
  spec.k = Persistent(1);
  spec.v = Persistent(2);
  spec.out = Persistent(3);
  spec.name = "attention";
  return {"attention h" + std::to_string(heads) + "/" + std::to_string(key_heads) + " " +
              std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(d) +
              (causal ? " causal" : ""),
          [spec](ContractionEmitter& emitter) { return emitter.EmitAttention(spec); },
          {heads * m * d, key_heads * n * d, key_heads * n * d, heads * m * d}};
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const int64_t m : {128, 1}) {
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{768, 768}, {3072, 768}, {768, 3072}}) {
      cases.push_back(Gemm(m, n, k, true, true));
      cases.push_back(Gemm(m, n, k, false, true));
    }
  }
  cases.push_back(Gemm(1, 32000, 768, true, true));
  cases.push_back(Gemm(1, 32000, 768, false, true));
  cases.push_back(Gemm(128, 3072, 768, true, true, true));
  cases.push_back(Gemm(128, 768, 768, true, false));
  cases.push_back(Gemm(128, 768, 768, false, false));
  cases.push_back(Gemm(4, 3072, 768, true, true));
  cases.push_back(Gemm(4, 3072, 768, false, true));
  cases.push_back(Gemm(16, 3072, 768, true, true));
  cases.push_back(Gemm(1024, 1024, 1024, false, true));
  cases.push_back(Gemm(196, 256, 1024, true, true));
  cases.push_back(Gemm(49, 2048, 512, true, true));
  cases.push_back(BatchGemm(1024, 8, 8, 8));
  cases.push_back(BatchGemm(1024, 5, 7, 3));
  cases.push_back(BatchGemm(96, 64, 64, 64));
  cases.push_back(Attention(12, 1, 128, 128, 64, false));
  cases.push_back(Attention(12, 1, 128, 128, 64, true));
  cases.push_back(Attention(12, 1, 1024, 1024, 64, false));
  cases.push_back(Attention(12, 1, 1024, 1024, 64, true));
  cases.push_back(Attention(32, 1, 1, 1024, 64, false));
  cases.push_back(Attention(32, 4, 1, 1024, 64, false));
  // ResNet-50, batch 1.
  cases.push_back(Conv(224, 3, 64, 7, 2));
  cases.push_back(Conv(56, 64, 64, 1, 1));
  cases.push_back(Conv(56, 64, 256, 1, 1));
  cases.push_back(Conv(56, 64, 64, 3, 1));
  cases.push_back(Conv(56, 128, 128, 3, 2));
  cases.push_back(Conv(28, 128, 128, 3, 1));
  cases.push_back(Conv(14, 256, 256, 3, 1));
  cases.push_back(Conv(7, 512, 512, 3, 1));
  cases.push_back(Conv(56, 256, 512, 1, 2));
  cases.push_back(Conv(14, 1024, 256, 1, 1));
  cases.push_back(Conv(56, 144, 144, 3, 1, 144));
  return cases;
}

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
