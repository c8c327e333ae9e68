// Logging with one line per event and key=value fields. The header exposes neither spdlog nor fmt
// (torch ships other fmt headers); log.cc is the only file that includes them.
#pragma once

#include <sstream>
#include <string>

namespace hpu {

enum class LogLevel {
  kTrace = 0,
  kDebug = 1,
  kInfo = 2,
  kWarning = 3,
  kError = 4,
  kCritical = 5,
  kOff = 6
};

// Lines go to stderr by default, or to `file` (rotated at 10 MiB, 5 kept) when it is not empty.
// Thread-safe; call it once at start-up. Level numbers are those of LOG_LEVEL_ALL (guide FLAG-6).
void ConfigureLog(const std::string& program, LogLevel level, const std::string& file);
bool LogEnabled(LogLevel level);
void LogLine(LogLevel level, const std::string& text);

// While the object lives, lines of this thread end with these fields ("request=1a2b"). Scopes nest;
// the innermost one counts.
class LogScope {
 public:
  explicit LogScope(std::string fields);
  ~LogScope();
  LogScope(const LogScope&) = delete;

 private:
  const std::string fields_;
  const LogScope* const outer_;
  friend void LogLine(LogLevel level, const std::string& text);
  friend std::string LogFields();
};

// Returns the fields of the innermost scope of this thread, for another thread that works for it;
// empty if there is no scope.
std::string LogFields();

}  // namespace hpu

// HPU_LOG(kInfo, "compiled key=" << key << " ms=" << ms);
#define HPU_LOG(level, parts)                                      \
  do {                                                             \
    if (::hpu::LogEnabled(::hpu::LogLevel::level)) {               \
      std::ostringstream hpu_log_text_;                            \
      hpu_log_text_ << parts;                                      \
      ::hpu::LogLine(::hpu::LogLevel::level, hpu_log_text_.str()); \
    }                                                              \
  } while (false)
