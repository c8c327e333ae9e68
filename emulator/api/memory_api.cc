// Memory and copies (reference 1.5, 4.3).
#include "emulator/api/entry.h"
#include "emulator/runtime/copy_work.h"
#include "synapse/include/synapse_api.h"

using namespace hpu::emulator;  // NOLINT

namespace {

synStatus CheckDeviceRange(Device& device, uint64_t address, uint64_t bytes) {
  if (device.memory().Contains(address, bytes)) return synSuccess;
  return Fail(synInvalidArgument, bytes, " bytes at ", address,
              " do not lie in allocated device memory");
}

synStatus CheckHostRange(Device& device, uint64_t address, uint64_t bytes) {
  if (device.mappings().Contains(address, bytes)) return synSuccess;
  return Fail(synMappingNotFound, bytes, " bytes of host memory at ", address,
              " are not mapped (synHostMap, synHostMalloc)");
}

synStatus CheckCopy(Device& device, const CopyRange& range, synDmaDir direction) {
  if (range.bytes == 0) return synSuccess;
  SYN_RETURN_IF_FAILED(direction == HOST_TO_DRAM
                           ? CheckHostRange(device, range.source, range.bytes)
                           : CheckDeviceRange(device, range.source, range.bytes));
  return direction == DRAM_TO_HOST ? CheckHostRange(device, range.destination, range.bytes)
                                   : CheckDeviceRange(device, range.destination, range.bytes);
}

const char* NameOf(synDmaDir direction) {
  switch (direction) {
    case HOST_TO_DRAM:
      return "copy to device";
    case DRAM_TO_HOST:
      return "copy to host";
    default:
      return "copy on device";
  }
}

synStatus QueueCopies(Device& device, synStreamHandle handle, const uint64_t* sources,
                      const uint64_t* sizes, const uint64_t* destinations, synDmaDir direction,
                      uint64_t count) {
  const std::shared_ptr<Stream> stream = device.streams().Find(handle);
  SYN_REQUIRE_ARGUMENT(stream != nullptr);
  SYN_REQUIRE_ARGUMENT(direction < DIRECTION_ENUM_MAX);
  SYN_REQUIRE_ARGUMENT(count == 0 ||
                       (sources != nullptr && sizes != nullptr && destinations != nullptr));
  Library& library = Library::Get();
  Profiler& profiler = library.profiler();
  const HostInterval interval(&profiler, "synMemCopyAsync");
  SYN_RETURN_IF_FAILED(library.faults().Check(FaultPoint::kCopy));
  std::vector<CopyRange> ranges;
  for (uint64_t i = 0; i < count; ++i) {
    const CopyRange range{sources[i], destinations[i], sizes[i]};
    SYN_RETURN_IF_FAILED(CheckCopy(device, range, direction));
    if (range.bytes != 0) ranges.push_back(range);
  }
  if (ranges.empty()) return synSuccess;
  const CopyTrace trace{&profiler, NameOf(direction), profiler.Origin(StreamNumber(handle))};
  const CopyContext context{&device.executor().packs(), &library.counters(), &device.mappings()};
  stream->Enqueue(std::make_unique<CopyWork>(std::move(ranges), context, trace));
  return synSuccess;
}

synStatus QueueFill(uint64_t address, uint32_t value, uint32_t width, size_t count,
                    synStreamHandle handle) {
  return DeviceCall([&](Device& device) -> synStatus {
    const std::shared_ptr<Stream> stream = device.streams().Find(handle);
    SYN_REQUIRE_ARGUMENT(stream != nullptr);
    SYN_REQUIRE_ARGUMENT(count <= ~uint64_t{0} / width && address % width == 0);
    Library& library = Library::Get();
    SYN_RETURN_IF_FAILED(library.faults().Check(FaultPoint::kCopy));
    if (count == 0) return synSuccess;
    SYN_RETURN_IF_FAILED(CheckDeviceRange(device, address, count * width));
    Count(library.counters().fills);
    Profiler& profiler = library.profiler();
    const CopyTrace trace{&profiler, "fill", profiler.Origin(StreamNumber(handle))};
    stream->Enqueue(std::make_unique<FillWork>(address, value, width, count,
                                               &device.executor().packs(), trace));
    return synSuccess;
  });
}

}  // namespace

synStatus synHostMalloc(synDeviceId, uint64_t size, uint32_t /*flags*/, void** buffer) {
  return DeviceCall([&](Device& device) -> synStatus {
    SYN_REQUIRE_ARGUMENT(buffer != nullptr && size > 0);
    *buffer = nullptr;
    SYN_RETURN_IF_FAILED(Library::Get().faults().Check(FaultPoint::kHostMalloc));
    *buffer = device.AllocateHost(size);
    if (*buffer != nullptr) return synSuccess;
    return Fail(synOutOfHostMemory, "no host memory for ", size, " bytes");
  });
}

synStatus synHostFree(synDeviceId, const void* buffer, uint32_t /*flags*/) {
  return DeviceCall([&](Device& device) -> synStatus {
    if (device.FreeHost(buffer)) return synSuccess;
    return Fail(synInvalidArgument, "this buffer was not allocated by synHostMalloc");
  });
}

synStatus synHostMap(synDeviceId, uint64_t size, const void* buffer) {
  return DeviceCall([&](Device& device) -> synStatus {
    SYN_REQUIRE_ARGUMENT(buffer != nullptr && size > 0);
    device.mappings().Map(reinterpret_cast<uint64_t>(buffer), size);
    return synSuccess;
  });
}

synStatus synHostUnmap(synDeviceId, const void* buffer) {
  return DeviceCall([&](Device& device) {
    device.mappings().Unmap(reinterpret_cast<uint64_t>(buffer));
    return synSuccess;
  });
}

synStatus synDeviceMalloc(synDeviceId, uint64_t size, uint64_t hint, uint32_t /*flags*/,
                          uint64_t* address) {
  return DeviceCall([&](Device& device) -> synStatus {
    SYN_REQUIRE_ARGUMENT(address != nullptr);
    *address = 0;
    if (size == 0) return synSuccess;
    Library& library = Library::Get();
    SYN_RETURN_IF_FAILED(library.faults().Check(FaultPoint::kMalloc));
    const absl::StatusOr<uint64_t> place = device.memory().Allocate(size, hint);
    if (!place.ok()) return Fail(synFail, place.status().message());
    device.usage().SetFree(device.memory().free_bytes());
    Count(library.counters().device_allocations);
    *address = *place;
    return synSuccess;
  });
}

synStatus synDeviceFree(synDeviceId, uint64_t address, uint32_t /*flags*/) {
  return DeviceCall([&](Device& device) -> synStatus {
    const absl::StatusOr<uint64_t> bytes = device.memory().Free(address);
    if (!bytes.ok()) return Fail(synInvalidArgument, bytes.status().message());
    device.usage().SetFree(device.memory().free_bytes());
    device.executor().packs().Drop(address, *bytes);
    Count(Library::Get().counters().device_frees);
    return synSuccess;
  });
}

synStatus synMemCopyAsync(synStreamHandle stream, uint64_t source, uint64_t size,
                          uint64_t destination, synDmaDir direction) {
  return DeviceCall([&](Device& device) {
    return QueueCopies(device, stream, &source, &size, &destination, direction, 1);
  });
}

synStatus synMemCopyAsyncMultiple(synStreamHandle stream, const uint64_t* sources,
                                  const uint64_t* sizes, const uint64_t* destinations,
                                  synDmaDir direction, uint64_t count) {
  return DeviceCall([&](Device& device) {
    return QueueCopies(device, stream, sources, sizes, destinations, direction, count);
  });
}

synStatus synMemsetD8Async(uint64_t address, unsigned char value, size_t count,
                           synStreamHandle stream) {
  return QueueFill(address, value, 1, count, stream);
}

synStatus synMemsetD16Async(uint64_t address, uint16_t value, size_t count,
                            synStreamHandle stream) {
  return QueueFill(address, value, 2, count, stream);
}

synStatus synMemsetD32Async(uint64_t address, uint32_t value, size_t count,
                            synStreamHandle stream) {
  return QueueFill(address, value, 4, count, stream);
}
