#include "tests/runtime/device_environment.h"

namespace hpu::runtime {

Device& TestDevice() {
  Device& device = Device::Get();
  device.SetDefaultLibrary(HPU_EMULATOR_LIBRARY);
  const absl::Status status = device.EnsureAcquired();
  HPU_CHECK(status.ok(), "the emulated device cannot be acquired");
  return device;
}

Stream& TestStream(uint32_t id) {
  const absl::StatusOr<Stream*> stream = TestDevice().GetStream(id);
  HPU_CHECK(stream.ok(), "no stream");
  return **stream;
}

}  // namespace hpu::runtime
