// All files that an operator or another user provides are read through this class: keys, tokens,
// callers, certificates, settings, locks.
//
// A FIFO or a device in place of a file would stop the reader for ever, or never end. Files are
// therefore opened without waiting, and the kind of the file is read from the descriptor, not from
// the path, which may lead elsewhere by then.
#pragma once

#include <sys/stat.h>

#include <string>
#include <utility>

#include "base/status.h"

namespace hpu {

// All errors name the path. NOT_FOUND: there is no file. UNAVAILABLE: it is not a regular file, or
// the system refuses it.
class RegularFile {
 public:
  enum class Links { kFollow, kRefuse };

  static absl::StatusOr<RegularFile> Open(const std::string& path, Links links = Links::kFollow);
  // For lock files: creates the file if there is none, and opens it for reading and writing.
  static absl::StatusOr<RegularFile> OpenOrCreate(const std::string& path, mode_t mode);

  RegularFile(RegularFile&& other) noexcept;
  RegularFile& operator=(RegularFile&&) = delete;
  ~RegularFile();

  int descriptor() const { return descriptor_; }
  // The caller closes it.
  int Release() && { return std::exchange(descriptor_, -1); }
  // Returns the state of the file when it was opened.
  const struct stat& info() const { return info_; }

  // Returns PERMISSION_DENIED, with a remedy, if the file belongs to a user who is neither this
  // user nor root, if others than its owner can write it, or if it is a secret that every user can
  // read.
  enum class Use { kSecret, kPublic };
  absl::Status CheckOwner(Use use) const;

  // Returns the whole content. INVALID_ARGUMENT: it has more than `most` bytes.
  absl::StatusOr<std::string> Read(size_t most) const;

 private:
  RegularFile(int descriptor, std::string path);
  static absl::StatusOr<RegularFile> OpenWith(const std::string& path, int flags, mode_t mode);

  int descriptor_;
  std::string path_;
  struct stat info_{};
};

// Opens and reads the file.
absl::StatusOr<std::string> ReadRegularFile(const std::string& path, size_t most);

// Does the same for a secret, and checks its owner.
absl::StatusOr<std::string> ReadSecret(const std::string& path, size_t most);

// Returns whether the process can write the file without ever waiting for a reader: it is a regular
// file, or does not exist yet.
bool IsRegularOrAbsent(const std::string& path);

}  // namespace hpu
