#include "backend/runtime/bridge_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <mutex>

namespace hpu::runtime {
namespace {

constexpr uint64_t kAllModules = ~uint64_t{0};
constexpr uint64_t kDefaultKinds = 3;  // FATAL and WARNING

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written <= 0) return;  // a full disk must not stop the program
    text.remove_prefix(static_cast<size_t>(written));
  }
}

uint64_t MaskFromEnvironment(const char* name, uint64_t otherwise) {
  const std::string text = Environment(name);
  if (text.empty()) return otherwise;
  uint64_t mask = 0;
  if (ParseMask(text, &mask)) return mask;
  WriteAll(STDERR_FILENO, std::string(name) + "=" + text +
                              " is not a hexadecimal bit mask (for example 80 or 0x80); using the "
                              "default\n");
  return otherwise;
}

std::filesystem::path LogFolder() {
  std::filesystem::path folder = Environment("HABANA_LOGS");
  if (folder.empty()) folder = std::filesystem::path(Environment("HOME")) / ".habana_logs";
  if (const std::string host = Environment("HLS_ID"); !host.empty()) folder /= host;
  std::string rank = Environment("ID");
  if (rank.empty()) rank = Environment("OMPI_COMM_WORLD_RANK");
  if (!rank.empty()) folder /= rank;
  return folder;
}

// The sink is opened when the first line is written, so that a program that logs nothing leaves no
// file.
struct Sink {
  std::mutex mutex;
  std::atomic<int> fd{-1};
};

Sink& GetSink() {
  static Sink* sink = new Sink;
  return *sink;
}

int OpenSink() {
  Sink& sink = GetSink();
  if (const int fd = sink.fd.load(std::memory_order_acquire); fd >= 0) return fd;
  std::lock_guard lock(sink.mutex);
  if (const int fd = sink.fd.load(std::memory_order_relaxed); fd >= 0) return fd;
  int fd = STDERR_FILENO;
  if (!ParseBool(Environment("ENABLE_CONSOLE"))) {
    std::error_code error;
    const std::filesystem::path folder = LogFolder();
    std::filesystem::create_directories(folder, error);
    const int file = ::open((folder / "pytorch_log.txt").c_str(),
                            O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file >= 0) fd = file;  // without a place to write, the console is better than silence
  }
  sink.fd.store(fd, std::memory_order_release);
  return fd;
}

void LoadMasks(internal::LogMasks& masks) {
  masks.modules.store(MaskFromEnvironment("PT_HPU_LOG_MOD_MASK", kAllModules));
  masks.kinds.store(MaskFromEnvironment("PT_HPU_LOG_TYPE_MASK", kDefaultKinds));
}

}  // namespace

namespace internal {
LogMasks& GetLogMasks() {
  static LogMasks* masks = [] {
    auto* fresh = new LogMasks;
    LoadMasks(*fresh);
    return fresh;
  }();
  return *masks;
}
}  // namespace internal

bool ParseMask(std::string_view text, uint64_t* mask) {
  if (text.starts_with("0x") || text.starts_with("0X")) text.remove_prefix(2);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *mask, 16);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

bool ParseBool(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower == "true" || lower == "1" || lower == "on" || lower == "yes";
}

void WriteLogLine(std::string_view text) {
  // Each line is one write: with O_APPEND, lines of several threads and processes do not mix.
  std::string line(text);
  line += '\n';
  WriteAll(OpenSink(), line);
}

void ReloadLogSettings() {
  LoadMasks(internal::GetLogMasks());
  Sink& sink = GetSink();
  std::lock_guard lock(sink.mutex);
  const int fd = sink.fd.exchange(-1);
  if (fd > STDERR_FILENO) ::close(fd);
}

}  // namespace hpu::runtime
