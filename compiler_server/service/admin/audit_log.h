// Records who did what to a server, in a file with one JSON object per line. The server appends to
// the file and never cuts or renames it: that is logrotate's work, and the file is opened again
// when it was moved away. The fields are time (UTC), caller, tenant, door, action, result (a
// canonical code), key (64 hexadecimal digits or empty) and detail.
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

// Returns one line with its line end.
std::string ToJsonLine(const AuditEvent& event, int64_t unix_millis);

// Thread-safe.
class AuditLog {
 public:
  // An empty path writes nothing. Returns UNAVAILABLE if the file cannot be opened for appending.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& path);
  // Checks the same without making the file.
  static absl::Status Check(const std::string& path);
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;

  // A line that cannot be written goes to the server's log instead.
  void Write(const AuditEvent& event);

 private:
  explicit AuditLog(std::string path) : path_(std::move(path)) {}
  absl::Status Reopen();  // callers hold mutex_

  const std::string path_;
  std::mutex mutex_;
  // These are guarded by mutex_. -1 means that no file is open.
  int file_ = -1;
  bool line_open_ = false;                // the disk took only a part of the last line
  std::optional<FileIdentity> identity_;  // of the open file
};

}  // namespace hpu::server
