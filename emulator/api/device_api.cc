// Devices (reference 1.4, 4.2).
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "emulator/api/entry.h"
#include "synapse/include/synapse_api.h"

using namespace hpu::emulator;  // NOLINT

namespace {

synStatus Acquire(synDeviceId* device, synDeviceType type,
                  std::optional<uint32_t> module = std::nullopt) {
  const synStatus status = Library::Get().AcquireDevice(type, module);
  if (status == synSuccess) {
    *device = 0;
  } else if (status != synDeviceAlreadyAcquired) {
    *device = SYN_INVALID_DEVICE_ID;
  }
  return status;
}

// `body` is a synStatus(const std::vector<uint32_t>&) of the visible modules.
template <typename Body>
synStatus ModulesCall(Body&& body) {
  return Call([&]() -> synStatus {
    const absl::StatusOr<std::vector<uint32_t>> modules = VisibleModules();
    if (!modules.ok()) return Fail(synInvalidArgument, modules.status().message());
    return body(*modules);
  });
}

synStatus CopyName(const char* text, char* buffer, int length) {
  SYN_REQUIRE_ARGUMENT(buffer != nullptr && length > 0);
  if (std::strlen(text) + 1 > static_cast<size_t>(length)) {
    return Fail(synInvalidArgument, "the buffer needs ", std::strlen(text) + 1, " bytes");
  }
  std::strcpy(buffer, text);
  return synSuccess;
}

// A null device means that only the type is known.
synStatus GetAttribute(synDeviceAttribute attribute, const DeviceProperties& properties,
                       Device* device, uint64_t* value) {
  const auto needs_device = [&] {
    return Fail(synUnsupported, "attribute ", attribute, " needs an acquired device");
  };
  switch (attribute) {
    case DEVICE_ATTRIBUTE_SRAM_BASE_ADDRESS:
      if (device == nullptr) return needs_device();
      *value = properties.sram_base;
      return synSuccess;
    case DEVICE_ATTRIBUTE_DRAM_BASE_ADDRESS:
      if (device == nullptr) return needs_device();
      *value = device->memory().base();
      return synSuccess;
    case DEVICE_ATTRIBUTE_SRAM_SIZE:
      if (device == nullptr) return needs_device();
      *value = properties.sram_bytes;
      return synSuccess;
    case DEVICE_ATTRIBUTE_DRAM_SIZE:
      if (device == nullptr) return needs_device();
      *value = device->memory().total_bytes();
      return synSuccess;
    case DEVICE_ATTRIBUTE_DRAM_FREE_SIZE:
      if (device == nullptr) return needs_device();
      *value = device->memory().free_bytes();
      return synSuccess;
    case DEVICE_ATTRIBUTE_CLK_RATE:
      if (device == nullptr) return needs_device();
      *value = properties.clock_mhz;
      return synSuccess;
    case DEVICE_ATTRIBUTE_STREAMS_TOTAL_MEM_SIZE:
      if (device == nullptr) return needs_device();
      *value = 0;
      return synSuccess;
    case DEVICE_ATTRIBUTE_TPC_ENABLED_MASK:
      *value = properties.tpc_mask;
      return synSuccess;
    case DEVICE_ATTRIBUTE_DRAM_ENABLED:
      *value = 1;
      return synSuccess;
    case DEVICE_ATTRIBUTE_DEVICE_TYPE:
      *value = properties.type;
      return synSuccess;
    case DEVICE_ATTRIBUTE_MAX_RMW_SIZE:
      *value = kMaxRmwBytes;
      return synSuccess;
    case DEVICE_ATTRIBUTE_ADDRESS_ALIGNMENT_SIZE:
      *value = properties.address_alignment;
      return synSuccess;
    case DEVICE_ATTRIBUTE_MAX_DIMS:
      *value = kMaxDims;
      return synSuccess;
  }
  return Fail(synInvalidArgument, "no device attribute has the number ", attribute);
}

synStatus GetAttributes(uint64_t* values, const synDeviceAttribute* attributes, unsigned count,
                        const DeviceProperties& properties, Device* device) {
  SYN_REQUIRE_ARGUMENT(values != nullptr && attributes != nullptr);
  for (unsigned i = 0; i < count; ++i) {
    SYN_RETURN_IF_FAILED(GetAttribute(attributes[i], properties, device, &values[i]));
  }
  return synSuccess;
}

template <typename Info>
void FillInfo(Device& device, Info* info) {
  const DeviceProperties& properties = device.properties();
  *info = Info{};
  info->sramBaseAddress = properties.sram_base;
  info->dramBaseAddress = device.memory().base();
  info->sramSize = properties.sram_bytes;
  info->dramSize = device.memory().total_bytes();
  info->tpcEnabledMask = properties.tpc_mask;
  info->dramEnabled = 1;
  info->deviceId = 0;
  info->fd = 0;
  info->deviceType = properties.type;
}

}  // namespace

synStatus synDeviceGetCount(uint32_t* count) {
  return ModulesCall([&](const std::vector<uint32_t>& modules) -> synStatus {
    SYN_REQUIRE_ARGUMENT(count != nullptr);
    *count = static_cast<uint32_t>(modules.size());
    return synSuccess;
  });
}

synStatus synDeviceGetCountByDeviceType(uint32_t* count, synDeviceType type) {
  return ModulesCall([&](const std::vector<uint32_t>& modules) -> synStatus {
    SYN_REQUIRE_ARGUMENT(count != nullptr);
    *count = type == Library::Get().emulated().type ? static_cast<uint32_t>(modules.size()) : 0;
    return synSuccess;
  });
}

synStatus synDeviceCount(uint32_t count[synDeviceTypeSize]) {
  return ModulesCall([&](const std::vector<uint32_t>& modules) -> synStatus {
    SYN_REQUIRE_ARGUMENT(count != nullptr);
    std::fill(count, count + synDeviceTypeSize, 0);
    count[Library::Get().emulated().type] = static_cast<uint32_t>(modules.size());
    return synSuccess;
  });
}

// `size` comes with the room of `ids` and leaves with the number of modules written.
synStatus synDeviceGetModuleIDs(uint32_t* ids, uint32_t* size) {
  return ModulesCall([&](const std::vector<uint32_t>& modules) -> synStatus {
    SYN_REQUIRE_ARGUMENT(ids != nullptr && size != nullptr && *size > 0);
    *size = std::min(*size, static_cast<uint32_t>(modules.size()));
    std::copy_n(modules.begin(), *size, ids);
    return synSuccess;
  });
}

synStatus synDeviceAcquire(synDeviceId* device, const char* pci_bus) {
  return ModulesCall([&](const std::vector<uint32_t>& modules) -> synStatus {
    SYN_REQUIRE_ARGUMENT(device != nullptr);
    if (pci_bus == nullptr || *pci_bus == '\0') return Acquire(device, synDeviceTypeInvalid);
    for (const uint32_t module : modules) {
      if (BusOf(module) == pci_bus) return Acquire(device, synDeviceTypeInvalid, module);
    }
    *device = SYN_INVALID_DEVICE_ID;
    return Fail(synNoDeviceFound, "no device on bus ", pci_bus, "; the first emulated one is on ",
                BusOf(modules.empty() ? 0 : modules.front()));
  });
}

synStatus synDeviceAcquireByDeviceType(synDeviceId* device, synDeviceType type) {
  return Call([&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(device != nullptr);
    return Acquire(device, type);
  });
}

synStatus synDeviceAcquireByModuleId(synDeviceId* device, synModuleId module) {
  return Call([&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(device != nullptr);
    return Acquire(device, synDeviceTypeInvalid, module);
  });
}

synStatus synDeviceRelease(synDeviceId) {
  return Call([] { return Library::Get().ReleaseDevice(); });
}

synStatus synDeviceSynchronize(synDeviceId) {
  return DeviceCall([](Device& device) -> synStatus {
    const HostInterval interval(&Library::Get().profiler(), "synDeviceSynchronize");
    SYN_RETURN_IF_FAILED(Library::Get().faults().Check(FaultPoint::kSynchronize));
    std::string reason;
    const synStatus status = device.Synchronize(&reason);
    if (status == synSuccess) return status;
    return Fail(status, "work of a stream failed: ", StatusText(status), reason.empty() ? "" : ": ",
                reason);
  });
}

synStatus synDeviceGetName(char* buffer, int length, synDeviceId) {
  return DeviceCall(
      [&](Device& device) { return CopyName(device.properties().name, buffer, length); });
}

synStatus synDeviceGetPCIBusId(char* buffer, int length, synDeviceId) {
  return DeviceCall([&](Device& device) {
    return CopyName(BusOf(device.module().module()).c_str(), buffer, length);
  });
}

synStatus synDeviceGetInfo(synDeviceId, synDeviceInfo* info) {
  return DeviceCall([&](Device& device) -> synStatus {
    SYN_REQUIRE_ARGUMENT(info != nullptr);
    FillInfo(device, info);
    return synSuccess;
  });
}

synStatus synDeviceGetInfoV2(synDeviceId, synDeviceInfoV2* info) {
  return DeviceCall([&](Device& device) -> synStatus {
    SYN_REQUIRE_ARGUMENT(info != nullptr);
    FillInfo(device, info);
    info->globalHbmBaseAddress = device.memory().base();
    return synSuccess;
  });
}

synStatus synDeviceGetAttribute(uint64_t* values, const synDeviceAttribute* attributes,
                                unsigned count, synDeviceId) {
  return DeviceCall([&](Device& device) {
    return GetAttributes(values, attributes, count, device.properties(), &device);
  });
}

synStatus synDeviceGetAttributeByModuleId(uint64_t* values, const synDeviceAttribute* attributes,
                                          unsigned count, synModuleId module) {
  return DeviceCall([&](Device& device) -> synStatus {
    if (module != device.module().module()) {
      return Fail(synInvalidArgument, "this process has no device in module ", module);
    }
    return GetAttributes(values, attributes, count, device.properties(), &device);
  });
}

synStatus synDeviceTypeGetAttribute(uint64_t* values, const synDeviceAttribute* attributes,
                                    unsigned count, synDeviceType type) {
  return Call([&]() -> synStatus {
    const DeviceProperties* properties = PropertiesOf(type);
    if (properties == nullptr) return Fail(synInvalidArgument, "no device type ", type);
    return GetAttributes(values, attributes, count, *properties, nullptr);
  });
}

synStatus synDeviceGetMemoryInfo(synDeviceId, uint64_t* free, uint64_t* total) {
  return DeviceCall([&](Device& device) -> synStatus {
    SYN_REQUIRE_ARGUMENT(free != nullptr && total != nullptr);
    *free = device.memory().free_bytes();
    *total = device.memory().total_bytes();
    return synSuccess;
  });
}

synStatus synDeviceGetAffinityMaskRange(synDeviceId, uint64_t* mask) {
  return DeviceCall([&](Device&) -> synStatus {
    SYN_REQUIRE_ARGUMENT(mask != nullptr);
    *mask = (uint64_t{1} << Device::kQueues) - 1;
    return synSuccess;
  });
}

synStatus synDeviceGetNextStreamAffinity(synDeviceId, uint64_t* mask) {
  return DeviceCall([&](Device& device) -> synStatus {
    SYN_REQUIRE_ARGUMENT(mask != nullptr);
    *mask = device.NextAffinity();
    return synSuccess;
  });
}
