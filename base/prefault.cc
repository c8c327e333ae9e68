#include "base/prefault.h"

#include <sys/mman.h>
#include <unistd.h>

namespace hpu {
namespace {

constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE; older headers lack it
constexpr uint64_t kFewestPages = 16;

}  // namespace

void Prefault(void* address, uint64_t bytes) {
  static const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<uint64_t>(address);
  const uint64_t first = (start + page - 1) / page * page;
  const uint64_t last = (start + bytes) / page * page;
  if (last < first + kFewestPages * page) return;
  unsigned char present = 1;
  if (mincore(reinterpret_cast<void*>(first), page, &present) != 0 || (present & 1) != 0) return;
  madvise(reinterpret_cast<void*>(first), last - first, kPopulateWrite);
}

}  // namespace hpu
