#include "base/log.h"

#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>
#include <string_view>

#include "base/regular_file.h"

namespace hpu {
namespace {

constexpr size_t kMaxFileBytes = 10 << 20;
constexpr size_t kMaxFiles = 5;
constexpr size_t kMaxLineBytes = 16 << 10;

std::mutex mutex;
thread_local const LogScope* scope = nullptr;
std::shared_ptr<spdlog::logger>& Logger() {
  static std::shared_ptr<spdlog::logger> logger = [] {
    auto made =
        std::make_shared<spdlog::logger>("hpu", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_level(spdlog::level::warn);
    return made;
  }();
  return logger;
}

// Quoted text (names of a graph, paths) must not look like our own lines, must not steer a
// terminal, and must not outgrow the file's bound.
std::string OneLine(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string line;
  for (const char c : text.substr(0, kMaxLineBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      line += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      line += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      line += c;
    }
  }
  if (text.size() > kMaxLineBytes) line += "... (" + std::to_string(text.size()) + " bytes)";
  return line;
}

}  // namespace

void ConfigureLog(const std::string& program, LogLevel level, const std::string& file) {
  std::lock_guard<std::mutex> lock(mutex);
  spdlog::sink_ptr sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  if (!file.empty()) {
    // A log that cannot be written (read-only or full disk) must not end the program, and a log
    // that is a FIFO must not stop it.
    try {
      if (IsRegularOrAbsent(file)) {
        sink =
            std::make_shared<spdlog::sinks::rotating_file_sink_mt>(file, kMaxFileBytes, kMaxFiles);
      }
    } catch (const spdlog::spdlog_ex&) {
    }
  }
  auto made = std::make_shared<spdlog::logger>(program, sink);
  made->set_pattern("%Y-%m-%dT%H:%M:%S.%e %n[%P] %l %v");
  made->set_level(static_cast<spdlog::level::level_enum>(level));
  made->flush_on(spdlog::level::info);
  made->set_error_handler([](const std::string&) {});
  Logger() = made;
}

bool LogEnabled(LogLevel level) {
  return Logger()->should_log(static_cast<spdlog::level::level_enum>(level));
}

LogScope::LogScope(std::string fields) : fields_(std::move(fields)), outer_(scope) { scope = this; }

LogScope::~LogScope() { scope = outer_; }

std::string LogFields() { return scope == nullptr ? "" : scope->fields_; }

void LogLine(LogLevel level, const std::string& text) {
  std::string line = OneLine(text);
  if (const std::string fields = LogFields(); !fields.empty()) line += " " + fields;
  Logger()->log(static_cast<spdlog::level::level_enum>(level), line);
}

}  // namespace hpu
