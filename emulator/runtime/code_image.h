// The machine code of a recipe in executable memory. The memory is written while it is writable and
// then made executable and read-only; it is never both.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"

namespace hpu::emulator {

// A kernel's machine code (recipe.h, KernelLaunch).
using KernelFunction = void (*)(void* const* operands, int64_t task_begin, int64_t task_end,
                                void* scratch);

class CodeImage {
 public:
  CodeImage() = default;
  ~CodeImage();
  CodeImage(const CodeImage&) = delete;
  CodeImage& operator=(const CodeImage&) = delete;

  // Returns RESOURCE_EXHAUSTED if the system gives no (executable) memory. Call this once.
  absl::Status Map(std::span<const uint8_t> code);
  KernelFunction function(uint32_t entry) const {
    return reinterpret_cast<KernelFunction>(reinterpret_cast<uint64_t>(base_ + entry));
  }

 private:
  uint8_t* base_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace hpu::emulator
