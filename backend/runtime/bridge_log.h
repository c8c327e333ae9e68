// The device side's own log, with the masks that users know: a line is written when its module bit
// is in PT_HPU_LOG_MOD_MASK and its kind bit in PT_HPU_LOG_TYPE_MASK. Both are read as hexadecimal
// ("0x" is optional); by default all modules and the kinds FATAL and WARNING are on. Lines go to
// pytorch_log.txt in ~/.habana_logs (HABANA_LOGS names another folder; HLS_ID and ID or
// OMPI_COMM_WORLD_RANK add subfolders), or to stderr with ENABLE_CONSOLE=true.
#pragma once

#include <atomic>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>

namespace hpu::runtime {

enum class LogModule : uint32_t {
  kDevice = 0x1,
  kKernel = 0x2,
  kBridge = 0x4,
  kSynapse = 0x8,
  kDistributed = 0x10,
  kLazy = 0x20,
  kPinnedMemory = 0x40,
  kFallback = 0x80,
};

enum class LogKind : uint32_t { kFatal = 1, kWarning = 2, kTrace = 4, kDebug = 8 };

namespace internal {
struct LogMasks {
  std::atomic<uint64_t> modules;
  std::atomic<uint64_t> kinds;
};
LogMasks& GetLogMasks();
}  // namespace internal

inline bool LogEnabled(uint64_t module, uint64_t kind) {
  const internal::LogMasks& masks = internal::GetLogMasks();
  return (masks.modules.load(std::memory_order_relaxed) & module) != 0 &&
         (masks.kinds.load(std::memory_order_relaxed) & kind) != 0;
}
inline bool LogEnabled(LogModule module, LogKind kind) {
  return LogEnabled(static_cast<uint64_t>(module), static_cast<uint64_t>(kind));
}

// Writes `text` as one line, whatever the masks are. Thread-safe, and safe in a forked child.
void WriteLogLine(std::string_view text);

// Reads the environment again (for tests, and for Python code that changed os.environ).
void ReloadLogSettings();

// Parses a mask from the environment; returns false if it is not a hexadecimal number.
bool ParseMask(std::string_view text, uint64_t* mask);
// Returns whether the text is "true", "1", "on" or "yes" in any letter case.
bool ParseBool(std::string_view text);

}  // namespace hpu::runtime

// BRIDGE_LOG(kPinnedMemory, kDebug, "pinned alloc bytes=" << bytes);
#define BRIDGE_LOG(module, kind, parts)                               \
  do {                                                                \
    if (::hpu::runtime::LogEnabled(::hpu::runtime::LogModule::module, \
                                   ::hpu::runtime::LogKind::kind)) {  \
      std::ostringstream bridge_log_text_;                            \
      bridge_log_text_ << parts;                                      \
      ::hpu::runtime::WriteLogLine(bridge_log_text_.str());           \
    }                                                                 \
  } while (false)
