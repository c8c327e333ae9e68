#include "compiler_server/service/admin/audit_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "base/clock.h"
#include "base/log.h"

namespace hpu::server {
namespace {

// Texts come from callers, and the rest of a longer one adds nothing.
constexpr size_t kMaxFieldBytes = 1024;

// The file may be a pipe to a collector of logs. A collector that is absent or slow must not stop
// the server.
constexpr int kFlags = O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

absl::Status CannotOpen(const std::string& path) {
  return Error(absl::StatusCode::kUnavailable, "the audit log ", path, " cannot be opened: ",
               errno == ENXIO ? "it is a FIFO that nobody reads, or a socket" : strerror(errno));
}

// JSON's escapes (RFC 8259, section 7). Characters outside ASCII are escaped too, so that no reader
// has to know the encoding of a caller's text.
void AddField(const char* name, const std::string& value, std::string& line) {
  constexpr char kHex[] = "0123456789abcdef";
  line += std::string(line.size() > 1 ? "," : "") + "\"" + name + "\":\"";
  for (const char c : value.substr(0, kMaxFieldBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      line += {'\\', c};
    } else if (byte < 0x20 || byte >= 0x7f) {
      line += {'\\', 'u', '0', '0', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      line += c;
    }
  }
  line += '"';
}

std::string UtcTime(int64_t unix_millis) {
  const time_t seconds = unix_millis / 1000;
  tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  // Adding 1000 makes four digits, of which the last three are the milliseconds with leading zeros.
  return std::string(text.data()) + "." + std::to_string(1000 + unix_millis % 1000).substr(1) + "Z";
}

}  // namespace

std::string ToJsonLine(const AuditEvent& event, int64_t unix_millis) {
  std::string line = "{";
  AddField("time", UtcTime(unix_millis), line);
  AddField("caller", event.caller, line);
  AddField("tenant", event.tenant, line);
  AddField("door", event.door, line);
  AddField("action", event.action, line);
  AddField("result", absl::StatusCodeToString(event.result), line);
  AddField("key", event.key, line);
  AddField("detail", event.detail, line);
  return line + "}\n";
}

absl::Status AuditLog::Check(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  const int file = open(path.c_str(), kFlags);
  if (file >= 0) {
    close(file);
    return absl::OkStatus();
  }
  if (errno != ENOENT) return CannotOpen(path);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return access(folder.c_str(), W_OK | X_OK) == 0 ? absl::OkStatus() : CannotOpen(path);
}

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const std::string& path) {
  std::unique_ptr<AuditLog> log(new AuditLog(path));
  if (!path.empty()) {
    std::lock_guard<std::mutex> lock(log->mutex_);
    RETURN_IF_ERROR(log->Reopen());
  }
  return log;
}

AuditLog::~AuditLog() {
  if (file_ >= 0) close(file_);
}

absl::Status AuditLog::Reopen() {
  if (file_ >= 0) close(file_);
  file_ = open(path_.c_str(), kFlags | O_CREAT, 0600);
  if (file_ < 0) return CannotOpen(path_);
  identity_.emplace(path_);
  return absl::OkStatus();
}

void AuditLog::Write(const AuditEvent& event) {
  if (path_.empty()) return;
  std::string line = ToJsonLine(event, static_cast<int64_t>(MicrosOfEpoch() / 1000));
  std::lock_guard<std::mutex> lock(mutex_);
  absl::Status opened;
  if (file_ < 0 || !identity_->InPlace()) opened = Reopen();
  // One write per line keeps the lines of several writers from mixing.
  std::string why = ToText(opened);
  if (opened.ok()) {
    if (line_open_) line.insert(line.begin(), '\n');
    const ssize_t written = write(file_, line.data(), line.size());
    line_open_ = written >= 0 && static_cast<size_t>(written) < line.size();
    if (written == static_cast<ssize_t>(line.size())) return;
    why = written < 0 ? strerror(errno) : "the disk is full";
  }
  HPU_LOG(kError, "not in the audit log file=" << path_ << " error=" << why << " line=" << line);
}

}  // namespace hpu::server
