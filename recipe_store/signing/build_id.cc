#include "recipe_store/signing/build_id.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <sstream>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/regular_file.h"

namespace hpu::store {
namespace {

constexpr char kSynapseLibrary[] = "libSynapse.so";
constexpr char kGraphCompiler[] = "libSynapseCompiler.so";
constexpr size_t kReadBytes = 1 << 20;
constexpr size_t kMaxCacheBytes = 1 << 20;

// Returns a text that changes whenever the file is replaced or written:
// "size.mtime.ctime.inode.device".
std::string Fingerprint(const struct stat& info) {
  std::ostringstream text;
  text << info.st_size << '.' << info.st_mtim.tv_sec << '.' << info.st_mtim.tv_nsec << '.'
       << info.st_ctim.tv_sec << '.' << info.st_ctim.tv_nsec << '.' << info.st_ino << '.'
       << info.st_dev;
  return text.str();
}

struct CachedDigest {
  std::string fingerprint;
  std::string digest_hex;
};
using DigestCache = std::map<std::string, CachedDigest>;  // by path

// A user who can write to the cache decides what our build is called, so only this user may.
bool IsOurs(const struct stat& info) {
  return info.st_uid == geteuid() && (info.st_mode & 022) == 0;
}

// Reads lines "fingerprint digest path" and skips anything else.
DigestCache ReadCache(const std::string& path) {
  DigestCache cache;
  const absl::StatusOr<RegularFile> file = RegularFile::Open(path, RegularFile::Links::kRefuse);
  if (!file.ok() || !IsOurs(file->info())) return cache;
  std::istringstream in(file->Read(kMaxCacheBytes).value_or(""));
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    CachedDigest entry;
    std::string name;
    fields >> entry.fingerprint >> entry.digest_hex >> std::ws;
    std::getline(fields, name);
    if (DigestFromHex(entry.digest_hex)) cache[name] = std::move(entry);
  }
  return cache;
}

void WriteCache(const std::string& path, const DigestCache& cache) {
  std::ostringstream text;
  for (const auto& [file, entry] : cache) {
    text << entry.fingerprint << ' ' << entry.digest_hex << ' ' << file << '\n';
  }
  const std::string bytes = text.str();
  const std::string temporary = path + ".new." + std::to_string(getpid());
  // The mode does not depend on the umask, which is the user's.
  const int fd =
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return;
  const bool written = write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  close(fd);
  if (!written || std::rename(temporary.c_str(), path.c_str()) != 0) {
    std::remove(temporary.c_str());
  }
}

absl::Status Unreadable(const std::string& path) {
  return NotFound("compiler file ", path, " cannot be read: ", std::strerror(errno));
}

absl::StatusOr<std::string> DigestOfFile(const std::string& path) {
  const absl::StatusOr<RegularFile> file = RegularFile::Open(path);
  if (!file.ok()) return NotFound("compiler file ", file.status().message());
  Hasher hasher;
  Bytes buffer(kReadBytes);
  ssize_t count = 0;
  while ((count = read(file->descriptor(), buffer.data(), buffer.size())) > 0) {
    hasher.Raw(buffer.data(), static_cast<size_t>(count));
  }
  if (count < 0) return Unreadable(path);
  return ToHex(hasher.Finish());
}

}  // namespace

std::vector<std::string> CompilerFiles(const std::string& server_program) {
  std::vector<std::string> files = {server_program};
  const std::filesystem::path beside = std::filesystem::path(server_program).parent_path();
  const char* configured = std::getenv("HPU_SYNAPSE_LIBRARY");
  const bool has_configured = configured != nullptr && *configured != '\0';
  const std::filesystem::path library =
      has_configured ? std::filesystem::path(configured) : beside / kSynapseLibrary;
  for (const std::filesystem::path& file : {library, library.parent_path() / kGraphCompiler}) {
    if (std::error_code error; std::filesystem::exists(file, error)) files.push_back(file.string());
  }
  return files;
}

absl::StatusOr<std::string> BuildId(const std::vector<std::string>& files,
                                    const std::string& cache_file) {
  DigestCache cache = cache_file.empty() ? DigestCache() : ReadCache(cache_file);
  bool changed = false;
  Hasher hasher;
  for (const std::string& file : files) {
    struct stat info{};
    if (stat(file.c_str(), &info) != 0) return Unreadable(file);
    const std::string fingerprint = Fingerprint(info);
    CachedDigest& known = cache[file];
    if (known.fingerprint != fingerprint) {
      ASSIGN_OR_RETURN(known.digest_hex, DigestOfFile(file));
      known.fingerprint = fingerprint;
      changed = true;
    }
    hasher.Field(std::filesystem::path(file).filename().string()).Field(known.digest_hex);
  }
  if (changed && !cache_file.empty()) WriteCache(cache_file, cache);
  return ToHex(hasher.Finish());
}

}  // namespace hpu::store
