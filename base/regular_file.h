// The door through which files are read that an operator or another user has laid there: keys,
// tokens, callers, certificates, settings, locks.
//
// A FIFO or a device in place of a file would stop the reader for good, or never end. What is
// opened here is opened without waiting, and what it is is asked of the descriptor, not of the
// path, which may lead elsewhere by then.
#pragma once

#include <sys/stat.h>

#include <string>
#include <utility>

#include "base/status.h"

namespace hpu {

// All errors name the path. NOT_FOUND: nothing is there. UNAVAILABLE: it is no regular file, or the
// system refuses it.
class RegularFile {
 public:
  enum class Links { kFollow, kRefuse };

  static absl::StatusOr<RegularFile> Open(const std::string& path, Links links = Links::kFollow);
  // For lock files: makes the file if there is none, and opens it for reading and writing.
  static absl::StatusOr<RegularFile> OpenOrCreate(const std::string& path, mode_t mode);

  RegularFile(RegularFile&& other) noexcept;
  RegularFile& operator=(RegularFile&&) = delete;
  ~RegularFile();

  int descriptor() const { return descriptor_; }
  // The caller closes it.
  int Release() && { return std::exchange(descriptor_, -1); }
  // As of the moment it was opened.
  const struct stat& info() const { return info_; }

  // PERMISSION_DENIED, with the cure: the file belongs to somebody who is neither this user nor
  // root, others than its owner can write it or, if it is a secret, every user can read it.
  enum class Use { kSecret, kPublic };
  absl::Status CheckOwner(Use use) const;

  // The whole content. INVALID_ARGUMENT: it has more than `most` bytes.
  absl::StatusOr<std::string> Read(size_t most) const;

 private:
  RegularFile(int descriptor, std::string path);
  static absl::StatusOr<RegularFile> OpenWith(const std::string& path, int flags, mode_t mode);

  int descriptor_;
  std::string path_;
  struct stat info_{};
};

// Open, then Read.
absl::StatusOr<std::string> ReadRegularFile(const std::string& path, size_t most);

// The same of a secret, whose owner is checked.
absl::StatusOr<std::string> ReadSecret(const std::string& path, size_t most);

// A file that the process may write without ever waiting for a reader: a regular one, or none yet.
bool IsRegularOrAbsent(const std::string& path);

}  // namespace hpu
