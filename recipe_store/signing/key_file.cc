#include "recipe_store/signing/key_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/regular_file.h"

namespace hpu::store {
namespace {

absl::Status FileError(const char* what, const std::string& path) {
  return Error(absl::StatusCode::kUnavailable, what, " ", path, ": ", std::strerror(errno));
}

// Opens a regular file and checks that its size fits.
absl::StatusOr<RegularFile> OpenKey(const std::string& path, size_t least, size_t most) {
  ASSIGN_OR_RETURN(RegularFile file, RegularFile::Open(path, RegularFile::Links::kRefuse));
  const auto size = static_cast<size_t>(file.info().st_size);
  if (size >= least && size <= most) return file;
  if (least == most) {
    return DataLoss("key file ", path, " has ", size, " bytes instead of ", most);
  }
  return DataLoss("key file ", path, " has ", size, " bytes instead of ", least, " to ", most);
}

absl::Status ReadAll(const RegularFile& file, const std::string& path, std::span<uint8_t> data) {
  const ssize_t count = read(file.descriptor(), data.data(), data.size());
  if (count == static_cast<ssize_t>(data.size())) return absl::OkStatus();
  if (count < 0) return FileError("reading", path);
  return DataLoss("key file ", path, " was cut while it was read");
}

}  // namespace

absl::StatusOr<Bytes> ReadKeyFile(const std::string& path, size_t least, size_t most) {
  ASSIGN_OR_RETURN(const RegularFile file, OpenKey(path, least, most));
  Bytes bytes(static_cast<size_t>(file.info().st_size));
  RETURN_IF_ERROR(ReadAll(file, path, bytes));
  return bytes;
}

absl::Status ReadSecretKeyFile(const std::string& path, std::span<uint8_t> secret) {
  ASSIGN_OR_RETURN(const RegularFile file, OpenKey(path, secret.size(), secret.size()));
  if (file.info().st_uid != geteuid() || (file.info().st_mode & 077) != 0) {
    return Error(absl::StatusCode::kPermissionDenied, "secret key ", path,
                 " is readable by others or owned by someone else; remove it or chmod 600");
  }
  return ReadAll(file, path, secret);
}

absl::Status WriteKeyFile(const std::string& path, std::span<const uint8_t> data, mode_t mode) {
  const std::string temporary = path + ".new." + std::to_string(getpid());
  // A killed process with this id may have left the file over.
  unlink(temporary.c_str());
  // The bytes must not go into a file or a link that somebody else laid there.
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) return FileError("creating", temporary);
  const bool written =
      write(fd, data.data(), data.size()) == static_cast<ssize_t>(data.size()) && fsync(fd) == 0;
  const absl::Status failure = written ? absl::OkStatus() : FileError("writing", temporary);
  close(fd);
  if (written && rename(temporary.c_str(), path.c_str()) == 0) return absl::OkStatus();
  const absl::Status rename_failure = written ? FileError("renaming to", path) : failure;
  unlink(temporary.c_str());
  return rename_failure;
}

}  // namespace hpu::store
