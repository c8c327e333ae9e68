#include "emulator/memory/touch_report.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <mutex>

#include "emulator/memory/device_memory.h"

namespace hpu::emulator {
namespace {

std::atomic<const DeviceMemory*> watched{nullptr};
struct sigaction earlier;  // the action before Install

// Formats without allocating, because this runs in a signal handler.
void Report(const DeviceMemory& memory, uint64_t address) {
  char place[128] = "in no allocation";
  if (const std::optional<DeviceBlockRange> block = memory.FindBlock(address)) {
    std::snprintf(place, sizeof(place), "byte %llu of the allocation of %llu bytes at 0x%llx",
                  static_cast<unsigned long long>(address - block->address),
                  static_cast<unsigned long long>(block->bytes),
                  static_cast<unsigned long long>(block->address));
  }
  char line[256];
  const int length = std::snprintf(
      line, sizeof(line),
      "EMULATOR_STRICT: address 0x%llx, %s: the host touched device memory; a card would not allow "
      "it\n",
      static_cast<unsigned long long>(address), place);
  if (length > 0) [[maybe_unused]]
    const ssize_t written = write(STDERR_FILENO, line, static_cast<size_t>(length));
}

void OnFault(int number, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<uint64_t>(info->si_addr);
  const bool from_memory = info->si_code > 0;  // not sent by a process
  const DeviceMemory* memory = watched.load(std::memory_order_acquire);
  if (from_memory && memory != nullptr && memory->view().Covers(address)) {
    Report(*memory, address);
  } else if ((earlier.sa_flags & SA_SIGINFO) != 0) {
    earlier.sa_sigaction(number, info, context);
    return;
  } else if (earlier.sa_handler != SIG_DFL && earlier.sa_handler != SIG_IGN) {
    earlier.sa_handler(number);
    return;
  }
  // The access is made again after the return, and the earlier action is taken for it.
  sigaction(SIGSEGV, &earlier, nullptr);
  if (!from_memory) raise(SIGSEGV);
}

void Install() {
  struct sigaction action = {};
  action.sa_sigaction = &OnFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &earlier);
}

}  // namespace

void WatchTouches(const DeviceMemory* memory) {
  static std::once_flag once;
  std::call_once(once, &Install);
  watched.store(memory, std::memory_order_release);
}

void UnwatchTouches(const DeviceMemory* memory) {
  watched.compare_exchange_strong(memory, nullptr, std::memory_order_acq_rel);
}

}  // namespace hpu::emulator
