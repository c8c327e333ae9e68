// Maps an image executable and calls its kernels in this process. Only tests use this.
#pragma once

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

namespace hpu::graph_compiler {

class MappedImage {
 public:
  explicit MappedImage(const Bytes& code) : size_(code.size()) {
    memory_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HPU_CHECK(memory_ != MAP_FAILED, "mmap");
    std::memcpy(memory_, code.data(), size_);
    HPU_CHECK(mprotect(memory_, size_, PROT_READ | PROT_EXEC) == 0, "mprotect");
  }
  ~MappedImage() { munmap(memory_, size_); }
  MappedImage(const MappedImage&) = delete;
  MappedImage& operator=(const MappedImage&) = delete;

  // Runs tasks [begin, end) of the kernel at `entry` with a fresh scratch area.
  void Run(uint32_t entry, const std::vector<void*>& operands, int64_t begin, int64_t end,
           uint64_t scratch_bytes = 0) const {
    using Kernel = void (*)(void* const*, int64_t, int64_t, void*);
    void* scratch = std::aligned_alloc(64, (scratch_bytes + 127) / 64 * 64);
    std::memset(scratch, 0xff, scratch_bytes);
    const auto kernel = reinterpret_cast<Kernel>(static_cast<char*>(memory_) + entry);
    kernel(operands.data(), begin, end, scratch);
    std::free(scratch);
  }

 private:
  void* memory_ = nullptr;
  size_t size_ = 0;
};

}  // namespace hpu::graph_compiler
