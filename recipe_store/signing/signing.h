// Ed25519 signatures of manifests and aliases. Whoever holds the secret key can make programs that
// clients will execute; it never leaves the compile server's folder (mode 0600).
#pragma once

#include <array>
#include <string>

#include "recipe_store/signing/signed_record.h"

namespace hpu::store {

using PublicKey = std::array<uint8_t, 32>;

// A key pair. The secret half is wiped when the object dies; move-only.
class SigningKey {
 public:
  // A new pair that lives in this process only.
  static SigningKey Generate();

  // The pair of `folder` (files signing.key, mode 0600, and signing.pub), created on first use.
  // PERMISSION_DENIED: others may read the secret file. DATA_LOSS: a file of another size.
  // UNAVAILABLE: the folder cannot be read or written.
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

// PERMISSION_DENIED unless `trusted` signed it as a record of this kind.
absl::Status VerifySignature(RecordKind kind, const SignedRecord& signed_record,
                             const PublicKey& trusted);

// The key file is the bare 32 bytes. Writing goes through a temporary file and a rename; a file
// that holds the key already is left as it is.
absl::StatusOr<PublicKey> ReadPublicKey(const std::string& path);
absl::Status WritePublicKey(const std::string& path, const PublicKey& public_key);

}  // namespace hpu::store
