#include "base/log.h"

#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>

namespace hpu {
namespace {

constexpr size_t kMaxFileBytes = 10 << 20;
constexpr size_t kMaxFiles = 5;

std::mutex mutex;
std::shared_ptr<spdlog::logger>& Logger() {
  static std::shared_ptr<spdlog::logger> logger = [] {
    auto made =
        std::make_shared<spdlog::logger>("hpu", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_level(spdlog::level::warn);
    return made;
  }();
  return logger;
}

}  // namespace

void ConfigureLog(const std::string& program, LogLevel level, const std::string& file) {
  std::lock_guard<std::mutex> lock(mutex);
  spdlog::sink_ptr sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  if (!file.empty()) {
    // A log that cannot be written (read-only or full disk) must not end the program.
    try {
      sink = std::make_shared<spdlog::sinks::rotating_file_sink_mt>(file, kMaxFileBytes, kMaxFiles);
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

void LogLine(LogLevel level, const std::string& text) {
  Logger()->log(static_cast<spdlog::level::level_enum>(level), text);
}

}  // namespace hpu
