// Requests the pages of fresh memory in one call.
#pragma once

#include <cstdint>

namespace hpu {

// How much to prefault before filling it: at this size the zeros that the system wrote are still in
// the cache.
inline constexpr uint64_t kPrefaultBytes = uint64_t{1} << 20;

// Gives anonymous memory that was never touched its pages in one call instead of one fault each,
// which takes a third off the time of the first fill. The contents stay. Memory whose first page is
// present is left alone, and so is memory that the system (before Linux 5.14) or a limit refuses.
// Any thread may call this.
void Prefault(void* address, uint64_t bytes);

}  // namespace hpu
