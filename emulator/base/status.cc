#include "emulator/base/status.h"

#include <iterator>

#include "emulator/base/thread_object.h"

namespace hpu::emulator {

LastError& ThreadLastError() { return ThreadObject<LastError>(); }

synStatus FailWith(synStatus status, std::string text) {
  LastError& last = ThreadLastError();
  last.message = std::move(text);
  last.has_message = true;
  return status;
}

const char* StatusText(synStatus status) {
  static constexpr const char* kTexts[] = {
      "success",
      "invalid argument",
      "command buffer is full",
      "out of host memory",
      "out of device memory",
      "object was set or initialised before",
      "object was not set or initialised",
      "submitting a command failed",
      "no device found",
      "device type does not match",
      "initialising a command buffer failed",
      "freeing a command buffer failed",
      "mapping a command buffer failed",
      "unmapping a command buffer failed",
      "allocating device memory failed",
      "freeing device memory failed",
      "not enough devices found",
      "device is in reset",
      "not supported",
      "recipe file is wrong or cannot be written",
      "device is already acquired",
      "name is used already",
      "work is pending",
      "all resources are taken",
      "not available",
      "tensor dimensions are not valid",
      "general failure",
      "out of resources",
      "library is not initialised",
      "library is initialised already",
      "sections of a launch do not fit the recipe",
      "library was terminated",
      "asynchronous assertion failed",
      "event handle is not valid",
      "host memory is not mapped for the device",
      "patching a dynamic recipe failed",
      "patching a recipe failed",
      "submitting work failed",
      "definition of sections is not valid",
      "properties of a tensor are not valid",
      "collective communication failed",
      "no time stamp was collected",
      "time-out",
      "resource is used badly",
      "null pointer",
      "fuser failed",
      "complex guid failed",
      "kernels of the vector engine failed",
  };
  static_assert(std::size(kTexts) == synStatusLast + 1);
  const auto index = static_cast<uint32_t>(status);
  return index < std::size(kTexts) ? kTexts[index] : nullptr;
}

}  // namespace hpu::emulator
