#include "recipe_store/signing.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace hpu::store {
namespace {

static_assert(crypto_sign_PUBLICKEYBYTES == 32);
static_assert(crypto_sign_SECRETKEYBYTES == 64);
static_assert(crypto_sign_BYTES == 64);

struct KindText {
  std::string_view context;  // signed before the record, so that no other signature ever fits
  std::string_view name;
};

KindText TextOf(RecordKind kind) {
  if (kind == RecordKind::kAlias) return {"hpu-front-end-alias-v1", "alias"};
  return {"hpu-recipe-manifest-v1", "manifest"};
}

Bytes SignedText(RecordKind kind, std::span<const uint8_t> record) {
  const std::string_view context = TextOf(kind).context;
  Bytes text(context.size() + record.size());
  std::ranges::copy(context, text.begin());
  std::ranges::copy(record, text.begin() + static_cast<std::ptrdiff_t>(context.size()));
  return text;
}

// sodium_init is idempotent and thread-safe; it seeds the random generator.
void InitSodium() { HPU_CHECK(sodium_init() >= 0, "libsodium has no random source"); }

absl::Status FileError(const char* what, const std::string& path) {
  return Error(absl::StatusCode::kUnavailable, what, " ", path, ": ", std::strerror(errno));
}

// Reads exactly `size` bytes. NOT_FOUND if there is no file.
absl::Status ReadFile(const std::string& path, uint8_t* data, size_t size, bool secret) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return errno == ENOENT ? NotFound("no file ", path) : FileError("opening", path);
  struct stat info{};
  absl::Status status;
  if (fstat(fd, &info) != 0) {
    status = FileError("reading", path);
  } else if (secret && (info.st_uid != geteuid() || (info.st_mode & 077) != 0)) {
    status = Error(absl::StatusCode::kPermissionDenied, "secret key ", path,
                   " is readable by others or owned by someone else; remove it or chmod 600");
  } else if (info.st_size != static_cast<off_t>(size)) {
    status = DataLoss("key file ", path, " has ", info.st_size, " bytes instead of ", size);
  } else if (read(fd, data, size) != static_cast<ssize_t>(size)) {
    status = FileError("reading", path);
  }
  close(fd);
  return status;
}

absl::Status WriteFile(const std::string& path, std::span<const uint8_t> data, mode_t mode) {
  const std::string temporary = path + ".new." + std::to_string(getpid());
  unlink(temporary.c_str());  // left over by a process of this id that was killed
  // A file or a link that somebody else laid there must not receive the bytes.
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

}  // namespace

SigningKey::SigningKey(SigningKey&& other) noexcept
    : public_key_(other.public_key_), secret_key_(other.secret_key_) {
  sodium_memzero(other.secret_key_.data(), other.secret_key_.size());
}

SigningKey::~SigningKey() { sodium_memzero(secret_key_.data(), secret_key_.size()); }

SigningKey SigningKey::Generate() {
  InitSodium();
  SigningKey key;
  crypto_sign_keypair(key.public_key_.data(), key.secret_key_.data());
  return key;
}

absl::StatusOr<SigningKey> SigningKey::LoadOrCreate(const std::string& folder) {
  InitSodium();
  const std::string secret_path = folder + "/" + kSecretKeyFile;
  const std::string public_path = folder + "/" + kPublicKeyFile;
  SigningKey key;
  const absl::Status loaded =
      ReadFile(secret_path, key.secret_key_.data(), key.secret_key_.size(), /*secret=*/true);
  if (absl::IsNotFound(loaded)) {
    crypto_sign_keypair(key.public_key_.data(), key.secret_key_.data());
    RETURN_IF_ERROR(WriteFile(secret_path, key.secret_key_, 0600));
    RETURN_IF_ERROR(WritePublicKey(public_path, key.public_key_));
    return key;
  }
  RETURN_IF_ERROR(loaded);
  crypto_sign_ed25519_sk_to_pk(key.public_key_.data(), key.secret_key_.data());
  RETURN_IF_ERROR(WritePublicKey(public_path, key.public_key_));
  return key;
}

SignedRecord SigningKey::Sign(RecordKind kind, Bytes record) const {
  SignedRecord result;
  result.signature.resize(crypto_sign_BYTES);
  const Bytes text = SignedText(kind, record);
  crypto_sign_detached(result.signature.data(), nullptr, text.data(), text.size(),
                       secret_key_.data());
  result.public_key.assign(public_key_.begin(), public_key_.end());
  result.record = std::move(record);
  return result;
}

absl::Status VerifySignature(RecordKind kind, const SignedRecord& signed_record,
                             const PublicKey& trusted) {
  if (!std::ranges::equal(signed_record.public_key, trusted)) {
    return Error(absl::StatusCode::kPermissionDenied, TextOf(kind).name, " is signed by key ",
                 ToHex(signed_record.public_key).substr(0, 16), ", trusted is ",
                 ToHex(trusted).substr(0, 16));
  }
  const Bytes text = SignedText(kind, signed_record.record);
  if (signed_record.signature.size() != crypto_sign_BYTES ||
      crypto_sign_verify_detached(signed_record.signature.data(), text.data(), text.size(),
                                  trusted.data()) != 0) {
    return Error(absl::StatusCode::kPermissionDenied, "the ", TextOf(kind).name,
                 "'s signature is wrong");
  }
  return absl::OkStatus();
}

absl::StatusOr<PublicKey> ReadPublicKey(const std::string& path) {
  PublicKey key;
  RETURN_IF_ERROR(ReadFile(path, key.data(), key.size(), /*secret=*/false));
  return key;
}

absl::Status WritePublicKey(const std::string& path, const PublicKey& public_key) {
  const absl::StatusOr<PublicKey> published = ReadPublicKey(path);
  if (published.ok() && *published == public_key) return absl::OkStatus();
  return WriteFile(path, public_key, 0644);
}

}  // namespace hpu::store
