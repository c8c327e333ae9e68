#include "backend/runtime/copy.h"

#include <algorithm>
#include <cstring>

#include "backend/runtime/counters.h"
#include "backend/runtime/device.h"
#include "backend/runtime/direct_access.h"
#include "backend/runtime/host_memory.h"
#include "backend/runtime/profiling.h"
#include "backend/runtime/stream.h"
#include "backend/runtime/syn_status.h"
#include "base/prefault.h"

namespace hpu::runtime {
namespace {

// Staging buffers for a real card. At most eight may be in flight before the host waits, which
// bounds the pinned memory that one large copy takes.
constexpr uint64_t kChunkBytes = uint64_t{8} << 20;
constexpr int kChunksInFlight = 8;
// Up to this size a copy into a busy stream is queued through a staging buffer even where the host
// could write device memory itself: waiting for the stream costs more.
constexpr uint64_t kSmallCopyBytes = 64 << 10;

uint64_t AddressOf(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

absl::Status QueueCopy(Stream& stream, uint64_t source, uint64_t bytes, uint64_t destination,
                       synDmaDir direction) {
  RETURN_IF_SYN_ERROR(stream.device().api(), synMemCopyAsync, stream.handle(), source, bytes,
                      destination, direction);
  return absl::OkStatus();
}

absl::Status StageToDevice(Stream& stream, uint64_t device, const char* host, uint64_t bytes) {
  HostAllocator& pinned = stream.device().host_allocator();
  int in_flight = 0;
  for (uint64_t done = 0; done < bytes; done += kChunkBytes) {
    const uint64_t size = std::min(kChunkBytes, bytes - done);
    if (++in_flight > kChunksInFlight) {
      RETURN_IF_ERROR(stream.Synchronize());
      in_flight = 1;
    }
    ASSIGN_OR_RETURN(HostBlock* const block, pinned.Allocate(size));
    std::memcpy(block->data, host + done, size);
    const absl::Status queued =
        QueueCopy(stream, AddressOf(block->data), size, device + done, HOST_TO_DRAM);
    pinned.RecordStream(block, stream);
    pinned.Free(block);
    RETURN_IF_ERROR(queued);
  }
  return absl::OkStatus();
}

absl::Status StageToHost(Stream& stream, char* host, uint64_t device, uint64_t bytes) {
  HostAllocator& pinned = stream.device().host_allocator();
  ASSIGN_OR_RETURN(HostBlock* const block, pinned.Allocate(std::min(bytes, kChunkBytes)));
  absl::Status status;
  for (uint64_t done = 0; done < bytes && status.ok(); done += kChunkBytes) {
    const uint64_t size = std::min(kChunkBytes, bytes - done);
    status = QueueCopy(stream, device + done, size, AddressOf(block->data), DRAM_TO_HOST);
    if (status.ok()) status = stream.Synchronize();
    if (status.ok()) std::memcpy(host + done, block->data, size);
  }
  pinned.Free(block);
  return status;
}

}  // namespace

absl::Status CopyToDevice(Stream& stream, uint64_t device, const void* host, uint64_t bytes,
                          bool may_defer) {
  if (bytes == 0) return absl::OkStatus();
  Device& owner = stream.device();
  RETURN_IF_ERROR(owner.CheckUsable());
  GetCounters().bytes_to_device += bytes;
  const HostRange range("copy to device", "", bytes);
  if (may_defer) {
    if (HostBlock* block = owner.host_allocator().Find(host)) {
      owner.host_allocator().RecordStream(block, stream);
      return QueueCopy(stream, AddressOf(host), bytes, device, HOST_TO_DRAM);
    }
  }
  bool direct = owner.properties().host_addressable;
  if (direct && bytes <= kSmallCopyBytes) {
    ASSIGN_OR_RETURN(direct, stream.Query());
  }
  if (direct) {
    RETURN_IF_ERROR(stream.Synchronize());
    DirectAccess access(owner, device, bytes);
    for (uint64_t done = 0; done < bytes; done += kPrefaultBytes) {
      const uint64_t size = std::min(kPrefaultBytes, bytes - done);
      void* target = reinterpret_cast<void*>(device + done);
      Prefault(target, size);
      std::memcpy(target, static_cast<const char*>(host) + done, size);
    }
    access.NotifyWrite();
    return absl::OkStatus();
  }
  return StageToDevice(stream, device, static_cast<const char*>(host), bytes);
}

absl::Status CopyToHost(Stream& stream, void* host, uint64_t device, uint64_t bytes,
                        bool may_defer) {
  if (bytes == 0) return absl::OkStatus();
  Device& owner = stream.device();
  RETURN_IF_ERROR(owner.CheckUsable());
  GetCounters().bytes_to_host += bytes;
  const HostRange range("copy to host", "", bytes);
  if (may_defer) {
    if (HostBlock* block = owner.host_allocator().Find(host)) {
      owner.host_allocator().RecordStream(block, stream);
      return QueueCopy(stream, device, bytes, AddressOf(host), DRAM_TO_HOST);
    }
  }
  if (owner.properties().host_addressable) {
    RETURN_IF_ERROR(stream.Synchronize());
    const DirectAccess access(owner, device, bytes);
    std::memcpy(host, reinterpret_cast<const void*>(device), bytes);
    return absl::OkStatus();
  }
  return StageToHost(stream, static_cast<char*>(host), device, bytes);
}

absl::Status CopyOnDevice(Stream& stream, uint64_t destination, uint64_t source, uint64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  RETURN_IF_ERROR(stream.device().CheckUsable());
  return QueueCopy(stream, source, bytes, destination, DRAM_TO_DRAM);
}

absl::Status FillOnDevice(Stream& stream, uint64_t device, uint32_t pattern, uint32_t width,
                          uint64_t count) {
  if (count == 0) return absl::OkStatus();
  RETURN_IF_ERROR(stream.device().CheckUsable());
  const SynapseFunctions& api = stream.device().api();
  switch (width) {
    case 1:
      RETURN_IF_SYN_ERROR(api, synMemsetD8Async, device, static_cast<unsigned char>(pattern), count,
                          stream.handle());
      return absl::OkStatus();
    case 2:
      RETURN_IF_SYN_ERROR(api, synMemsetD16Async, device, static_cast<uint16_t>(pattern), count,
                          stream.handle());
      return absl::OkStatus();
    case 4:
      RETURN_IF_SYN_ERROR(api, synMemsetD32Async, device, pattern, count, stream.handle());
      return absl::OkStatus();
    default:
      return InvalidArgument("fill with elements of ", width, " bytes");
  }
}

}  // namespace hpu::runtime
