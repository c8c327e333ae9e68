#include "recipe_store/signing/signing.h"

#include <sodium.h>

#include <algorithm>
#include <string_view>

#include "recipe_store/signing/key_file.h"

namespace hpu::store {
namespace {

static_assert(crypto_sign_PUBLICKEYBYTES == 32);
static_assert(crypto_sign_SECRETKEYBYTES == 64);
static_assert(crypto_sign_BYTES == 64);

struct KindText {
  // The context is signed before the record, so that no other signature ever fits.
  std::string_view context;
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

// sodium_init is idempotent and thread-safe, and it seeds the random generator.
void InitSodium() { HPU_CHECK(sodium_init() >= 0, "libsodium has no random source"); }

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
  const absl::Status loaded = ReadSecretKeyFile(secret_path, key.secret_key_);
  if (absl::IsNotFound(loaded)) {
    crypto_sign_keypair(key.public_key_.data(), key.secret_key_.data());
    RETURN_IF_ERROR(WriteKeyFile(secret_path, key.secret_key_, 0600));
    RETURN_IF_ERROR(WritePublicKey(public_path, key.public_key_));
    return key;
  }
  RETURN_IF_ERROR(loaded);
  // The file holds the seed and then the public key that follows from it.
  std::array<uint8_t, crypto_sign_SEEDBYTES> seed{};
  std::array<uint8_t, crypto_sign_SECRETKEYBYTES> derived{};
  crypto_sign_ed25519_sk_to_seed(seed.data(), key.secret_key_.data());
  crypto_sign_seed_keypair(key.public_key_.data(), derived.data(), seed.data());
  const bool whole = sodium_memcmp(derived.data(), key.secret_key_.data(), derived.size()) == 0;
  sodium_memzero(seed.data(), seed.size());
  sodium_memzero(derived.data(), derived.size());
  if (!whole) {
    return DataLoss("key file ", secret_path,
                    " is damaged: its halves are not of one key; remove "
                    "it, and what it has signed is compiled again");
  }
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
  ASSIGN_OR_RETURN(const Bytes bytes, ReadKeyFile(path, key.size(), key.size()));
  std::ranges::copy(bytes, key.begin());
  return key;
}

absl::Status WritePublicKey(const std::string& path, const PublicKey& public_key) {
  const absl::StatusOr<PublicKey> published = ReadPublicKey(path);
  if (published.ok() && *published == public_key) return absl::OkStatus();
  return WriteKeyFile(path, public_key, 0644);
}

}  // namespace hpu::store
