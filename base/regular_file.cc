#include "base/regular_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace hpu {
namespace {

constexpr size_t kReadBytes = 64 << 10;

absl::Status Unreadable(const std::string& path, const std::string& why) {
  return Error(absl::StatusCode::kUnavailable, path, " cannot be read: ", why);
}

const char* KindOf(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFIFO:
      return "a FIFO";
    case S_IFSOCK:
      return "a socket";
    case S_IFDIR:
      return "a folder";
    case S_IFLNK:
      return "a symbolic link";
    default:
      return "a device";
  }
}

absl::Status NotRegular(const std::string& path, mode_t mode) {
  return Unreadable(path, std::string("it is ") + KindOf(mode) + " and not a regular file");
}

}  // namespace

RegularFile::RegularFile(int descriptor, std::string path)
    : descriptor_(descriptor), path_(std::move(path)) {}

RegularFile::RegularFile(RegularFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      info_(other.info_) {}

RegularFile::~RegularFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::StatusOr<RegularFile> RegularFile::OpenWith(const std::string& path, int flags, mode_t mode) {
  RegularFile file(open(path.c_str(), flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode), path);
  if (file.descriptor_ < 0) {
    const int error = errno;
    if (error == ENOENT) return NotFound("there is no file ", path);
    // The system's error texts do not name the kind of file: "No such device or address" means a
    // socket.
    struct stat found{};
    const bool follows = (flags & O_NOFOLLOW) == 0;
    if ((follows ? stat(path.c_str(), &found) : lstat(path.c_str(), &found)) == 0 &&
        !S_ISREG(found.st_mode)) {
      return NotRegular(path, found.st_mode);
    }
    return Unreadable(path, std::strerror(error));
  }
  if (fstat(file.descriptor_, &file.info_) != 0) return Unreadable(path, std::strerror(errno));
  if (!S_ISREG(file.info_.st_mode)) return NotRegular(path, file.info_.st_mode);
  return file;
}

absl::StatusOr<RegularFile> RegularFile::Open(const std::string& path, Links links) {
  return OpenWith(path, O_RDONLY | (links == Links::kRefuse ? O_NOFOLLOW : 0), 0);
}

absl::StatusOr<RegularFile> RegularFile::OpenOrCreate(const std::string& path, mode_t mode) {
  return OpenWith(path, O_RDWR | O_CREAT, mode);
}

absl::Status RegularFile::CheckOwner(Use use) const {
  constexpr auto kDenied = absl::StatusCode::kPermissionDenied;
  if (info_.st_uid != geteuid() && info_.st_uid != 0) {
    return Error(kDenied, path_, " belongs to user ", info_.st_uid,
                 ", who can change it; it must be this user's or root's");
  }
  if ((info_.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Error(kDenied, path_, " can be written by other users; chmod go-w ", path_);
  }
  // A group may be given access on purpose: a container reads its secrets that way.
  if (use == Use::kSecret && (info_.st_mode & S_IROTH) != 0) {
    return Error(kDenied, path_, " is a secret that every user can read; chmod 600 ", path_);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> RegularFile::Read(size_t most) const {
  std::string content;
  while (true) {
    const size_t had = content.size();
    content.resize(had + kReadBytes);
    const ssize_t count =
        pread(descriptor_, content.data() + had, kReadBytes, static_cast<off_t>(had));
    if (count < 0 && errno != EINTR) return Unreadable(path_, std::strerror(errno));
    content.resize(had + static_cast<size_t>(std::max<ssize_t>(count, 0)));
    if (content.size() > most) {
      return InvalidArgument(path_, " has more than ", most, " bytes");
    }
    if (count == 0) return content;
  }
}

absl::StatusOr<std::string> ReadRegularFile(const std::string& path, size_t most) {
  ASSIGN_OR_RETURN(const RegularFile file, RegularFile::Open(path));
  return file.Read(most);
}

absl::StatusOr<std::string> ReadSecret(const std::string& path, size_t most) {
  ASSIGN_OR_RETURN(const RegularFile file, RegularFile::Open(path));
  RETURN_IF_ERROR(file.CheckOwner(RegularFile::Use::kSecret));
  return file.Read(most);
}

bool IsRegularOrAbsent(const std::string& path) {
  struct stat found{};
  if (stat(path.c_str(), &found) != 0) return errno == ENOENT;
  return S_ISREG(found.st_mode);
}

}  // namespace hpu
