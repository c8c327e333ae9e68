// Machine code of a recipe in executable memory: written while writable, then made executable and
// read-only; never both.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"

namespace hpu::emulator {

class CodeImage {
 public:
  CodeImage() = default;
  ~CodeImage();
  CodeImage(const CodeImage&) = delete;
  CodeImage& operator=(const CodeImage&) = delete;

  // RESOURCE_EXHAUSTED: the system gives no (executable) memory. Call once.
  absl::Status Map(std::span<const uint8_t> code);
  const uint8_t* base() const { return base_; }

 private:
  uint8_t* base_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace hpu::emulator
