#include "emulator/base/usage.h"

#include <sys/mman.h>
#include <unistd.h>

namespace hpu::emulator {

Usage::Usage(uint64_t total_bytes, uint32_t module) : file_(memfd_create(kName, MFD_CLOEXEC)) {
  if (file_ >= 0 && ftruncate(file_, sizeof(UsageNumbers)) == 0) {
    void* page = mmap(nullptr, sizeof(UsageNumbers), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    if (page != MAP_FAILED) numbers_ = static_cast<UsageNumbers*>(page);
  }
  numbers_->total_bytes.store(total_bytes, std::memory_order_relaxed);
  numbers_->module.store(module, std::memory_order_relaxed);
  SetFree(total_bytes);
  numbers_->version.store(UsageNumbers::kVersion, std::memory_order_release);
}

Usage::~Usage() {
  if (numbers_ != &own_) munmap(numbers_, sizeof(UsageNumbers));
  if (file_ >= 0) close(file_);
}

}  // namespace hpu::emulator
