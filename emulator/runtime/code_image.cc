#include "emulator/runtime/code_image.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace hpu::emulator {

absl::Status CodeImage::Map(std::span<const uint8_t> code) {
  HPU_CHECK(base_ == nullptr);
  if (code.empty()) return absl::OkStatus();
  void* memory =
      mmap(nullptr, code.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return Error(absl::StatusCode::kResourceExhausted, "no memory for ", code.size(),
                 " bytes of code: ", std::strerror(errno));
  }
  std::memcpy(memory, code.data(), code.size());
  if (mprotect(memory, code.size(), PROT_READ | PROT_EXEC) != 0) {
    const int error = errno;
    munmap(memory, code.size());
    return Error(absl::StatusCode::kResourceExhausted,
                 "the system does not allow executable memory: ", std::strerror(error));
  }
  base_ = static_cast<uint8_t*>(memory);
  bytes_ = code.size();
  return absl::OkStatus();
}

CodeImage::~CodeImage() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

}  // namespace hpu::emulator
