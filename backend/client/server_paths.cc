#include "backend/client/server_paths.h"

#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/hash.h"

namespace hpu::client {
namespace {

namespace fs = std::filesystem;

constexpr char kSocketName[] = "server.sock";

// Creates the folder if necessary. Returns OK only if it is private to this user.
absl::Status MakePrivateFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return Error(absl::StatusCode::kUnavailable, "creating ", path, ": ", std::strerror(errno));
  }
  struct stat info{};
  if (lstat(path.c_str(), &info) != 0) {
    return Error(absl::StatusCode::kUnavailable, "reading ", path, ": ", std::strerror(errno));
  }
  if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 077) != 0) {
    return Error(absl::StatusCode::kPermissionDenied, path,
                 " is not a folder of this user alone; remove it or chmod 700 it");
  }
  return absl::OkStatus();
}

// Makes the folder and its parents for this user alone, whatever the umask.
void MakeFolders(const fs::path& path) {
  std::error_code error;
  if (path.has_parent_path() && !fs::exists(path.parent_path(), error)) {
    MakeFolders(path.parent_path());
  }
  mkdir(path.c_str(), 0700);
}

bool IsWritableFolder(const std::string& path) {
  MakeFolders(path);
  return access(path.c_str(), W_OK | X_OK) == 0;
}

// Whoever can write to a folder can put a link where a file of ours is expected.
bool OthersCanWrite(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) != 0 || info.st_uid != geteuid() || (info.st_mode & 022) != 0;
}

bool FitsSocket(const std::string& folder) {
  return folder.size() + 1 + sizeof(kSocketName) <= sizeof(sockaddr_un{}.sun_path);
}

absl::StatusOr<std::string> MakeSubstitute(const std::string& cache_dir) {
  const std::span name(reinterpret_cast<const uint8_t*>(cache_dir.data()), cache_dir.size());
  const std::string hash = ToHex(Sha256(name)).substr(0, 16);
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  std::string folder;
  if (runtime != nullptr && access(runtime, W_OK | X_OK) == 0) {
    folder = std::string(runtime) + "/hpu-" + hash;
  }
  if (folder.empty() || !FitsSocket(folder)) {
    folder = "/tmp/hpu-" + std::to_string(geteuid()) + "-" + hash;
  }
  RETURN_IF_ERROR(MakePrivateFolder(folder));
  return folder;
}

}  // namespace

absl::StatusOr<ServerPaths> MakeServerPaths(const std::string& cache_dir) {
  std::error_code error;
  const std::string cache = fs::absolute(cache_dir, error).lexically_normal().string();
  if (cache_dir.empty() || error) return InvalidArgument("'", cache_dir, "' is no cache folder");
  ServerPaths paths{cache, cache + "/store", "", cache + "/server.log"};
  const bool writable = IsWritableFolder(cache);
  std::string socket_folder = cache + "/run";
  if (!writable || !FitsSocket(socket_folder) || !MakePrivateFolder(socket_folder).ok()) {
    ASSIGN_OR_RETURN(socket_folder, MakeSubstitute(cache));
  }
  if (!writable || OthersCanWrite(cache)) {
    paths.state_dir = socket_folder;
    paths.log = socket_folder + "/server.log";
  }
  paths.socket = socket_folder + "/" + kSocketName;
  return paths;
}

}  // namespace hpu::client
