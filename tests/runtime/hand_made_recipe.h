// Recipes of the emulator with hand-written machine code. They need no compiler, and one of them
// runs until it is told to stop, which makes tests of asynchrony deterministic.
#pragma once

#include <atomic>
#include <cstdint>

#include "backend/runtime/stream.h"
#include "base/bytes.h"
#include "program/program.h"

namespace hpu::runtime {

// Computes y[i] = x[i] + x[i] for `count` 32-bit integers; the tensors are "x" and "y".
// `workspace_bytes` is requested and not used. If `with_const`, a const section of `count` integers
// 100 is added, and y[i] = x[i] + c[i] with the tensors "x", "c" and "y".
Bytes AddRecipe(uint64_t count, uint64_t workspace_bytes = 0, bool with_const = false);

// Returns a program of one input, one launch of `recipe` and one output buffer, `count` integers
// each.
Program OneLaunch(uint64_t count, const Bytes& recipe);

// Holds a stream: work queued behind it does not start before Open() (or the destructor).
class Gate {
 public:
  explicit Gate(Stream& stream);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void Open();

 private:
  Stream& stream_;
  struct State;
  State* state_;
};

}  // namespace hpu::runtime
