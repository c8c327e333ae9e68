// Every exported function runs its body through these wrappers. They refuse calls before
// initialisation and in forked children, keep the thread's last error, and let no exception cross
// the C border.
#pragma once

#include <new>
#include <string>

#include "emulator/api/library.h"
#include "emulator/base/status.h"

namespace hpu::emulator {

// Clears the thread's message. Returns kUninitialized in a forked child, which has no device and
// whose locks may be held by threads that do not exist there.
synStatus BeginCall(bool needs_initialization);

// Returns synUnsupported in strict mode, for functions that no card has.
synStatus CheckNotStrict();
// Returns that status.
synStatus FailStrict();

template <typename Body>
synStatus RunCall(bool needs_initialization, Body&& body) {
  synStatus status = BeginCall(needs_initialization);
  if (status == synSuccess) {
    try {
      status = body();
    } catch (const std::bad_alloc&) {
      status = FailWith(synOutOfHostMemory, "host memory is exhausted");
    }
  }
  ThreadLastError().status = status;
  return status;
}

// For calls that need synInitialize first. `body` is a synStatus().
template <typename Body>
synStatus Call(Body&& body) {
  return RunCall(true, body);
}
template <typename Body>
synStatus CallAnyTime(Body&& body) {
  return RunCall(false, body);
}

// `body` is a synStatus(Device&). Returns synFail without an acquired device (reference 4.2).
template <typename Body>
synStatus DeviceCall(Body&& body) {
  return RunCall(true, [&]() -> synStatus {
    const std::shared_ptr<Device> device = Library::Get().device();
    if (device == nullptr) return Fail(synFail, "no device is acquired");
    return body(*device);
  });
}

// Checks for null out-pointers and the like.
#define SYN_REQUIRE_ARGUMENT(condition) \
  if (!(condition)) return Fail(synInvalidArgument, "argument check failed: " #condition)

}  // namespace hpu::emulator
