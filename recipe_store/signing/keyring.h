// A keyring is the set of keys whose signatures are trusted: those of this server and those that
// its operator trusts.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "recipe_store/signing/signing.h"

namespace hpu::store {

// A Keyring is immutable and holds public keys.
class Keyring {
 public:
  explicit Keyring(std::vector<PublicKey> keys) : keys_(std::move(keys)) {}

  const std::vector<PublicKey>& keys() const { return keys_; }
  bool Trusts(std::span<const uint8_t> public_key) const;
  // Returns PERMISSION_DENIED unless one of the keys signed it as a record of this kind.
  absl::Status Verify(RecordKind kind, const SignedRecord& signed_record) const;

  bool operator==(const Keyring&) const = default;

 private:
  std::vector<PublicKey> keys_;
};

inline constexpr size_t kMaxTrustedKeys = 1024;

// A keyring's file is its keys of 32 bytes one after the other, 1 to kMaxTrustedKeys. Reading it
// returns NOT_FOUND, DATA_LOSS (the file has another length) or UNAVAILABLE. Writing it returns the
// errors of WritePublicKey.
absl::StatusOr<Keyring> ReadKeyring(const std::string& path);
absl::Status WriteKeyring(const std::string& path, const Keyring& keyring);

// TrustedKeys is the keyring of a running server: its own key and those of a folder. There,
// "NAME.pub" is a key that is trusted, and "NAME.revoked" one that is not trusted whatever else
// says so. Links are followed within the folder only. Thread-safe.
class TrustedKeys {
 public:
  // With an empty `folder` the own key is the only one.
  TrustedKeys(const PublicKey& own, std::string folder);

  std::shared_ptr<const Keyring> keyring() const;

  // Reads the folder again, and returns true if the keyring changed by it. A folder or file that
  // cannot be read leaves the keyring as it was: UNAVAILABLE, or DATA_LOSS with the file's name.
  // FAILED_PRECONDITION: the own key is revoked.
  absl::StatusOr<bool> Reload();

 private:
  const PublicKey own_;
  const std::string folder_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Keyring> keyring_;  // guarded by mutex_
};

}  // namespace hpu::store
