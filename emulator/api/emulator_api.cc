// The emulator's own extension (synapse_emulator.h).
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "emulator/api/lookup.h"
#include "emulator/graph/compiler_library.h"
#include "emulator/kernels/kernel_libraries.h"
#include "recipe/isa.h"
#include "synapse/include/synapse_emulator.h"

using namespace hpu::emulator;  // NOLINT

namespace {

synStatus CopyWhole(std::string_view text, char* buffer, size_t capacity) {
  if (capacity <= text.size()) {
    return Fail(synInvalidArgument, "the text needs ", text.size() + 1, " bytes");
  }
  std::memcpy(buffer, text.data(), text.size());
  buffer[text.size()] = '\0';
  return synSuccess;
}

// For what a card does not offer. `body` is a synStatus(Device&).
template <typename Body>
synStatus ExtensionCall(Body&& body) {
  return DeviceCall([&](Device& device) -> synStatus {
    // An operator that runs on the host makes three such calls, and reading the option costs as
    // much as a small operator.
    if (device.is_strict()) return FailStrict();
    return body(device);
  });
}

uint64_t CacheBytes(int name) { return static_cast<uint64_t>(std::max(sysconf(name), 0L)); }

}  // namespace

synStatus synEmulatorGetCapabilities(uint64_t* capabilities) {
  return CallAnyTime([&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(capabilities != nullptr);
    *capabilities = SYN_EMULATOR_NATIVE_CODE |
                    (Library::Get().strict() ? SYN_EMULATOR_STRICT : SYN_EMULATOR_HOST_ADDRESSABLE);
    return synSuccess;
  });
}

synStatus synEmulatorHostAccessBegin(uint64_t address, uint64_t size) {
  return ExtensionCall([&](Device& device) {
    device.BeginHostAccess(address, size);
    return synSuccess;
  });
}

synStatus synEmulatorHostAccessEnd() {
  return ExtensionCall([&](Device& device) -> synStatus {
    if (device.EndHostAccess()) return synSuccess;
    return Fail(synInvalidArgument, "no access of the host is open");
  });
}

synStatus synEmulatorHostWrite(uint64_t address, uint64_t size) {
  return ExtensionCall([&](Device& device) {
    device.executor().packs().Drop(address, size);
    return synSuccess;
  });
}

synStatus synEmulatorGetIsaLevel(char* buffer, size_t length) {
  return CallAnyTime([&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(buffer != nullptr);
    const std::optional<hpu::IsaLevel> level = hpu::HostIsaLevel();
    if (!level.has_value()) return Fail(synUnsupported, "this CPU has less than x86-64-v2");
    return CopyWhole(IsaLevelName(*level), buffer, length);
  });
}

synStatus synEmulatorSetComputeThreads(uint32_t count) {
  return ExtensionCall([&](Device& device) -> synStatus {
    constexpr uint32_t kMostThreads = 4096;
    SYN_REQUIRE_ARGUMENT(count <= kMostThreads);
    device.executor().SetThreads(count);
    return synSuccess;
  });
}

synStatus synEmulatorGetComputeThreads(uint32_t* count) {
  return ExtensionCall([&](Device& device) -> synStatus {
    SYN_REQUIRE_ARGUMENT(count != nullptr);
    *count = device.executor().threads();
    return synSuccess;
  });
}

synStatus synEmulatorMeasurePeak(synEmulatorPeak* result) {
  return DeviceCall([&](Device& device) -> synStatus {
    SYN_REQUIRE_ARGUMENT(result != nullptr);
    Peak peak;
    if (!device.executor().MeasurePeak(&peak)) {
      return Fail(synOutOfHostMemory, "no memory to measure the memory's bandwidth");
    }
    *result = {.f32FlopsPerSecond = peak.f32_flops_per_second,
               .bf16FlopsPerSecond = peak.bf16_flops_per_second,
               .bytesPerSecond = peak.bytes_per_second,
               .l1Bytes = CacheBytes(_SC_LEVEL1_DCACHE_SIZE),
               .l2Bytes = CacheBytes(_SC_LEVEL2_CACHE_SIZE),
               .l3Bytes = CacheBytes(_SC_LEVEL3_CACHE_SIZE)};
    return synSuccess;
  });
}

synStatus synEmulatorTraceTasks(uint32_t on) {
  return Call([&]() -> synStatus {
    SYN_RETURN_IF_FAILED(CheckNotStrict());
    Library::Get().profiler().SetTaskTimes(on != 0);
    return synSuccess;
  });
}

synStatus synEmulatorGetCounters(char* buffer, size_t capacity, size_t* size) {
  return Call([&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(size != nullptr);
    const std::string text = Library::Get().counters().ToJson();
    *size = text.size() + 1;
    return buffer == nullptr ? synSuccess : CopyWhole(text, buffer, capacity);
  });
}

synStatus synEmulatorFindKernel(const char* guid, uint32_t* version) {
  return CallAnyTime([&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(guid != nullptr && version != nullptr);
    const HpuKernel* kernel = KernelLibraries::Get().Find(guid);
    *version = kernel == nullptr ? 0 : kernel->version;
    return synSuccess;
  });
}

synStatus synEmulatorListKernels(char* buffer, size_t capacity, size_t* size) {
  return CallAnyTime([&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(size != nullptr);
    const std::string text = KernelLibraries::Get().List();
    *size = text.size() + 1;
    return buffer == nullptr ? synSuccess : CopyWhole(text, buffer, capacity);
  });
}

synStatus synEmulatorGraphDeclareKernel(synGraphHandle handle, const char* guid, uint32_t version) {
  return GraphCall(handle, [&](const std::shared_ptr<Graph>& graph) -> synStatus {
    SYN_REQUIRE_ARGUMENT(guid != nullptr && *guid != '\0' && version != 0);
    graph->custom_kernels()[guid] = version;
    return synSuccess;
  });
}

synStatus synEmulatorGraphCheck(synGraphHandle handle) {
  return GraphCall(handle, [](const std::shared_ptr<Graph>& graph) -> synStatus {
    const absl::StatusOr<const CompilerDoor*> door = OpenCompiler();
    if (!door.ok()) return FailWith(synFail, hpu::ToText(door.status()));
    const absl::Status status = (*door)->check_graph(graph->Describe("graph"));
    if (status.ok()) return synSuccess;
    return FailWith(absl::IsUnimplemented(status)     ? synUnsupported
                    : absl::IsInvalidArgument(status) ? synInvalidArgument
                                                      : synFail,
                    std::string(status.message()));
  });
}
