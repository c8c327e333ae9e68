// Caches the parsed content of a small file for callers that ask often; the file is read again when
// it has changed.
#pragma once

#include <sys/stat.h>

#include <ctime>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"

namespace hpu {

template <typename T>
class CachedFile {
 public:
  CachedFile(std::string path, std::function<absl::StatusOr<T>()> read)
      : path_(std::move(path)), read_(std::move(read)) {}

  // Returns the content of the file as it is now; errors are those of `read`.
  absl::StatusOr<std::shared_ptr<const T>> Get() {
    struct stat now{};
    const bool there = lstat(path_.c_str(), &now) == 0;
    std::lock_guard<std::mutex> lock(mutex_);
    if (there && value_ != nullptr && IsSame(now)) return value_;
    value_ = nullptr;
    ASSIGN_OR_RETURN(T value, read_());
    auto shared = std::make_shared<const T>(std::move(value));
    // A second change within one tick of the file system's clock would not be noticed.
    if (there && now.st_ctim.tv_sec + 2 < std::time(nullptr)) value_ = shared;
    seen_ = now;
    return shared;
  }

 private:
  // The target of a link may change without the link changing.
  bool IsSame(const struct stat& now) const {
    return S_ISREG(now.st_mode) && now.st_dev == seen_.st_dev && now.st_ino == seen_.st_ino &&
           now.st_size == seen_.st_size && now.st_ctim.tv_sec == seen_.st_ctim.tv_sec &&
           now.st_ctim.tv_nsec == seen_.st_ctim.tv_nsec;
  }

  const std::string path_;
  const std::function<absl::StatusOr<T>()> read_;
  std::mutex mutex_;
  // mutex_ guards these.
  struct stat seen_{};
  std::shared_ptr<const T> value_;
};

}  // namespace hpu
