// Machine code of a recipe in executable memory: written while writable, then made executable and
// read-only; never both.
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

  // RESOURCE_EXHAUSTED: the system gives no (executable) memory. Call once.
  absl::Status Map(std::span<const uint8_t> code);
  KernelFunction function(uint32_t entry) const {
    return reinterpret_cast<KernelFunction>(reinterpret_cast<uint64_t>(base_ + entry));
  }

 private:
  uint8_t* base_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace hpu::emulator
