// Measures the most that this machine can do: multiply-adds per second in f32 and bf16, and bytes
// read per second.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "emulator/threads/peak_loops.h"
#include "tests/contraction/harness.h"

namespace hpu::graph_compiler {

// One thread is timed by its own CPU time, which other processes disturb less; several threads are
// timed by the wall clock.
double Seconds(int threads, const std::function<void()>& run);

// Runs run(0) on the calling thread and run(1) ... on new ones; returns when all have ended.
void OnThreads(int threads, const std::function<void(int)>& run);

// Has loops that only multiply and add (peak_loops.h), and a kernel that only reads.
class Machine {
 public:
  Machine(IsaLevel isa, int threads);

  // One repetition takes some milliseconds.
  double PeakGflops(int repeat = 1) const { return Gflops(f32_, repeat); }
  // Uses the best bf16 instructions that exist. Where there are none, bf16 is widened and the f32
  // peak is the peak.
  double Bf16PeakGflops(int repeat = 1) const { return Gflops(bf16_, repeat); }
  // Returns "AMX", "AVX512_BF16" or "f32".
  const char* bf16_instructions() const { return bf16_.instructions; }
  double ReadGbytes() const;

 private:
  double Gflops(const emulator::PeakLoop& loop, int repeat) const;

  const int threads_;
  const emulator::PeakLoop f32_, bf16_;
  uint32_t read_entry_ = 0;
  std::unique_ptr<MappedImage> image_;
  std::unique_ptr<TestBuffer> memory_;
};

}  // namespace hpu::graph_compiler
