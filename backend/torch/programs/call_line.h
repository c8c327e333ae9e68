// The line of the user's program that calls an operator, for the messages of failed launches and
// of wrong indices. Launches have it only with PT_HPU_SOURCE_LINES, because it takes a walk over
// Python's frames.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hpu::torch_backend {

// Returns the number (runtime::NumberOfText) of "file:line", or 0 if lines are not wanted or no
// Python of the user's calls this thread (autograd runs the backward on a thread of its own). Works
// with or without the GIL.
uint32_t LineOfCaller();
// Does so whether lines are wanted or not.
uint32_t FindLineOfCaller();

// While it lives, a line that was found before is the one of its thread.
class KnownLine {
 public:
  explicit KnownLine(uint32_t line);
  ~KnownLine();
  KnownLine(const KnownLine&) = delete;
  KnownLine& operator=(const KnownLine&) = delete;

 private:
  const uint32_t before_;
};

// Returns "relu at file:line", or the name alone if the number of its line is 0.
std::string WithLine(std::string_view name, uint32_t line);

}  // namespace hpu::torch_backend
