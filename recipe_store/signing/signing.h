// Manifests and aliases have Ed25519 signatures. Whoever holds the secret key can make programs
// that clients will execute, so it never leaves the compile server's folder (mode 0600).
#pragma once

#include <array>
#include <string>

#include "recipe_store/signing/signed_record.h"

namespace hpu::store {

using PublicKey = std::array<uint8_t, 32>;

// A SigningKey is a key pair. The secret half is wiped when the object dies. The object can be
// moved and not copied.
class SigningKey {
 public:
  // Makes a pair that lives in this process only.
  static SigningKey Generate();

  // Returns the pair of `folder` (files signing.key, mode 0600, and signing.pub), which is created
  // on first use. PERMISSION_DENIED: others may read the secret file. DATA_LOSS: a file has another
  // size. UNAVAILABLE: the folder cannot be read or written.
  static absl::StatusOr<SigningKey> LoadOrCreate(const std::string& folder);

  SigningKey(SigningKey&& other) noexcept;
  SigningKey& operator=(SigningKey&&) = delete;
  ~SigningKey();

  const PublicKey& public_key() const { return public_key_; }

  SignedRecord Sign(RecordKind kind, Bytes record) const;

 private:
  SigningKey() = default;

  PublicKey public_key_{};
  std::array<uint8_t, 64> secret_key_{};
};

inline constexpr char kSecretKeyFile[] = "signing.key";
inline constexpr char kPublicKeyFile[] = "signing.pub";

// Returns PERMISSION_DENIED unless `trusted` signed it as a record of this kind.
absl::Status VerifySignature(RecordKind kind, const SignedRecord& signed_record,
                             const PublicKey& trusted);

// The key file holds the bare 32 bytes. Writing goes through a temporary file and a rename, and
// leaves a file alone that holds the key already.
absl::StatusOr<PublicKey> ReadPublicKey(const std::string& path);
absl::Status WritePublicKey(const std::string& path, const PublicKey& public_key);

}  // namespace hpu::store
