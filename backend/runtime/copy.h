// Byte copies between host and device and on the device, ordered by a stream.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace hpu::runtime {

class Stream;

// Copies host memory to the device. The source may be changed as soon as this returns, except with
// `may_defer` and a pinned source: then the copy is queued, and the source must stay unchanged
// until the stream has passed it.
absl::Status CopyToDevice(Stream& stream, uint64_t device, const void* host, uint64_t bytes,
                          bool may_defer = false);

// Copies device memory to the host. The data is there when this returns, except with `may_defer`
// and a pinned destination: then it is there when the stream has passed the copy.
absl::Status CopyToHost(Stream& stream, void* host, uint64_t device, uint64_t bytes,
                        bool may_defer = false);

// Queues a copy; the ranges must not overlap.
absl::Status CopyOnDevice(Stream& stream, uint64_t destination, uint64_t source, uint64_t bytes);

// Queues a fill of `count` elements of `width` bytes (1, 2 or 4) with the low bytes of `pattern`.
absl::Status FillOnDevice(Stream& stream, uint64_t device, uint32_t pattern, uint32_t width,
                          uint64_t count);

}  // namespace hpu::runtime
