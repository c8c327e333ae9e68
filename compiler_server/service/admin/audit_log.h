// Who did what to a server: a file of one JSON object a line, appended and never cut or renamed
// here (that is logrotate's work; the file is opened anew when it was moved away). Fields: time
// (UTC), caller, tenant, door, action, result (a canonical code), key (64 hexadecimal digits or
// empty), detail.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/status.h"
#include "compiler_server/service/callers/file_identity.h"

namespace hpu::server {

struct AuditEvent {
  std::string caller;
  std::string tenant;
  std::string door;
  std::string action;  // compile, pin, unpin, collect-garbage, evict, import, stop, refuse
  absl::StatusCode result = absl::StatusCode::kOk;
  std::string key;
  std::string detail;
};

// One line, with its end.
std::string ToJsonLine(const AuditEvent& event, int64_t unix_millis);

// Thread-safe.
class AuditLog {
 public:
  // "" = nothing is written. UNAVAILABLE: the file cannot be opened for appending.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& path);
  // The same without making the file.
  static absl::Status Check(const std::string& path);
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;

  // What cannot be written is in the server's log instead.
  void Write(const AuditEvent& event);

 private:
  explicit AuditLog(std::string path) : path_(std::move(path)) {}
  absl::Status Reopen();  // mutex_ held

  const std::string path_;
  std::mutex mutex_;
  // Guarded by mutex_; -1: none.
  int file_ = -1;
  bool line_open_ = false;                // the disk took half of the last one
  std::optional<FileIdentity> identity_;  // of the open file
};

}  // namespace hpu::server
