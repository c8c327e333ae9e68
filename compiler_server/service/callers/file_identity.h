// Whether a path still leads to the same file: others may remove or replace our files.
#pragma once

#include <sys/types.h>

#include <string>

namespace hpu::server {

class FileIdentity {
 public:
  // Remembers the file that is there now.
  explicit FileIdentity(std::string path);

  // False if the path leads nowhere or to another file.
  bool InPlace() const;
  // Whether the descriptor is of this file.
  bool IsOf(int fd) const;

 private:
  std::string path_;
  bool existed_ = false;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace hpu::server
