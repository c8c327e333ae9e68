// What this machine can do at most: multiply-adds per second in f32 and bf16, bytes read per
// second.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/contraction/harness.h"

namespace hpu::graph_compiler {

// One thread is timed by its own CPU time, which other processes disturb less; several by the wall.
double Seconds(int threads, const std::function<void()>& run);

// run(0) on the calling thread, run(1) ... on new ones; returns when all have.
void OnThreads(int threads, const std::function<void(int)>& run);

// Kernels that do nothing but multiply and add, and nothing but read.
class Machine {
 public:
  Machine(IsaLevel isa, int threads);

  // repeat: one repetition takes about 2 ms.
  double PeakGflops(int repeat = 1) const;
  // With the best bf16 instructions there are; where there are none, bf16 is widened and the f32
  // peak is the peak.
  double Bf16PeakGflops(int repeat = 1) const;
  // "AMX", "AVX512_BF16" or "f32".
  const std::string& bf16_instructions() const { return bf16_instructions_; }
  double ReadGbytes() const;

 private:
  double KernelGflops(uint32_t entry, double flops_per_lane, int repeat) const;

  const int threads_;
  int lanes_ = 0;
  std::string bf16_instructions_ = "f32";
  std::vector<uint32_t> entries_;
  std::unique_ptr<MappedImage> image_;
  std::unique_ptr<TestBuffer> memory_;
};

}  // namespace hpu::graph_compiler
