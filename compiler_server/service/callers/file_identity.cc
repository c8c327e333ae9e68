#include "compiler_server/service/callers/file_identity.h"

#include <sys/stat.h>

#include <utility>

namespace hpu::server {

FileIdentity::FileIdentity(std::string path) : path_(std::move(path)) {
  struct stat info{};
  existed_ = lstat(path_.c_str(), &info) == 0;
  device_ = info.st_dev;
  inode_ = info.st_ino;
}

bool FileIdentity::InPlace() const {
  struct stat info{};
  return existed_ && lstat(path_.c_str(), &info) == 0 && info.st_dev == device_ &&
         info.st_ino == inode_;
}

bool FileIdentity::IsOf(int fd) const {
  struct stat info{};
  return existed_ && fstat(fd, &info) == 0 && info.st_dev == device_ && info.st_ino == inode_;
}

}  // namespace hpu::server
