// Measures the speed of packing weights for the matrix engine, against memcpy of the same bytes.
//
//   pack_speed [--isa v2|v3|v4|v4-bf16|v4-amx] [--megabytes N]
//
// Each case packs a set of weights, one after the other, into fresh memory on one thread, as a
// first launch does. memcpy copies the same sources into equally fresh memory, in turn with
// packing. Times are CPU time, the least of several rounds, and include the system's page faults.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "emulator/base/aligned_buffer.h"
#include "tests/contraction/harness.h"

namespace hpu::graph_compiler {
namespace {

struct Options {
  IsaLevel isa = RunnableLevels().back();
  uint64_t megabytes = 100;
};

struct Case {
  std::string name;
  MemoryType type = MemoryType::kF32;
  EmitFn emit;
  uint64_t source_bytes = 0;
};

Case Linear(MemoryType type, int64_t n, int64_t k, bool transposed) {
  GemmSpec spec;
  spec.m = 128;
  spec.n = n;
  spec.k = k;
  spec.a.buffer = Persistent(0);
  spec.a.type = type;
  spec.a.row_stride = k;
  spec.a.col_stride = 1;
  spec.b.buffer = Persistent(1);
  spec.b.type = type;
  spec.b.row_stride = transposed ? 1 : n;
  spec.b.col_stride = transposed ? k : 1;
  spec.b.stable = true;
  spec.epilogue = StoreBody(type, {n, 1});
  spec.epilogue_operands = {Persistent(2)};
  spec.name = "gemm";
  return {std::string(type == MemoryType::kF32 ? "f32" : "bf16") +
              (transposed ? " [n,k] " : " [k,n] ") + std::to_string(n) + "x" + std::to_string(k),
          type, [spec](ContractionEmitter& emitter) { return emitter.EmitGemm(spec); },
          static_cast<uint64_t>(n * k * MemoryTypeSize(type))};
}

// The weights are (ko, c, kh, kw), dense in that order or channels last.
Case Conv(MemoryType type, int64_t channels, int64_t kernel, bool channels_last) {
  ConvSpec spec;
  spec.batch = 1;
  spec.in_h = spec.in_w = spec.out_h = spec.out_w = 14;
  spec.in_c = spec.out_c = channels;
  spec.kernel_h = spec.kernel_w = kernel;
  spec.pad_top = spec.pad_left = kernel / 2;
  spec.x = Persistent(0);
  spec.w = Persistent(1);
  spec.x_type = spec.w_type = type;
  spec.w_stable = true;
  const int64_t c = channels, k = kernel;
  const int64_t x_strides[] = {14 * 14 * c, 14 * c, c, 1};
  const int64_t dense[] = {c * k * k, k * k, k, 1};
  const int64_t last[] = {c * k * k, 1, k * c, c};
  std::copy_n(x_strides, 4, spec.x_strides);
  std::copy_n(channels_last ? last : dense, 4, spec.w_strides);
  spec.epilogue = StoreBody(type, {14 * 14 * c, 14 * c, c, 1});
  spec.epilogue_operands = {Persistent(2)};
  spec.name = "conv";
  return {std::string(type == MemoryType::kF32 ? "f32" : "bf16") + " conv " + std::to_string(k) +
              "x" + std::to_string(k) + " " + std::to_string(c) +
              (channels_last ? " channels last" : ""),
          type, [spec](ContractionEmitter& emitter) { return emitter.EmitConv(spec); },
          static_cast<uint64_t>(c * c * k * k * MemoryTypeSize(type))};
}

double CpuMilliseconds(const std::function<void()>& run) {
  const auto now = [] {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  run();
  return now() - start;
}

void Measure(const Case& test, const Options& options) {
  CompiledContraction compiled(options.isa, test.emit);
  const uint64_t packed_bytes = compiled.kernels().packed.at(0).packed_bytes;
  const uint64_t count = std::max<uint64_t>(1, (options.megabytes << 20) / test.source_bytes);
  std::vector<emulator::AlignedBuffer> sources;
  for (uint64_t i = 0; i < count; ++i) {
    sources.emplace_back(test.source_bytes);
    std::memset(sources.back().data(), 1, test.source_bytes);
  }
  const emulator::AlignedBuffer target(count * std::max(packed_bytes, test.source_bytes));
  std::memset(target.data(), 1, target.size());
  const auto milliseconds = [&](uint64_t bytes, const auto& fill) {
    return CpuMilliseconds([&] {
      for (uint64_t i = 0; i < count; ++i) fill(target.data() + i * bytes, sources[i].data());
    });
  };
  double pack = 1e9, copy = 1e9;
  for (int round = 0; round < 10; ++round) {
    copy = std::min(copy, milliseconds(test.source_bytes, [&](void* to, const void* from) {
                      std::memcpy(to, from, test.source_bytes);
                    }));
    pack = std::min(pack, milliseconds(packed_bytes, [&](void* to, void* from) {
                      compiled.PackOne(0, from, to);
                    }));
  }
  const double megabytes = static_cast<double>(count * test.source_bytes) / (1 << 20);
  std::printf("%-32s %6.1f ms per 100 MB   memcpy %6.1f ms   ratio %4.2f   compile %5.1f ms\n",
              test.name.c_str(), 100 * pack / megabytes, 100 * copy / megabytes, pack / copy,
              compiled.compile_ms());
}

int Main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    const auto named = [&](IsaLevel level) { return LevelName(level) == value; };
    const std::vector<IsaLevel> levels = RunnableLevels();
    const auto level = std::find_if(levels.begin(), levels.end(), named);
    if (flag == "--isa" && level != levels.end()) {
      options.isa = *level;
      ++i;
    } else if (flag == "--megabytes" && std::atoi(value.c_str()) > 0) {
      options.megabytes = static_cast<uint64_t>(std::atoi(value.c_str()));
      ++i;
    } else {
      std::fprintf(stderr, "usage: pack_speed [--isa v2|v3|v4|v4-bf16|v4-amx] [--megabytes N]\n");
      return 2;
    }
  }
  std::printf("isa %s, one thread\n", LevelName(options.isa).c_str());
  for (const MemoryType type : {MemoryType::kF32, MemoryType::kBF16}) {
    for (const bool transposed : {true, false}) {
      for (const auto& [n, k] : {std::pair<int64_t, int64_t>{768, 768}, {3072, 768}, {768, 3072}}) {
        Measure(Linear(type, n, k, transposed), options);
      }
    }
    Measure(Conv(type, 512, 3, false), options);
    Measure(Conv(type, 512, 3, true), options);
  }
  return 0;
}

}  // namespace
}  // namespace hpu::graph_compiler

int main(int argc, char** argv) { return hpu::graph_compiler::Main(argc, argv); }
