#include "recipe_store/signing/keyring.h"

#include <algorithm>
#include <filesystem>

#include "recipe_store/signing/key_file.h"

namespace hpu::store {
namespace {

namespace fs = std::filesystem;

// Returns where a link leads that stays in its folder, as the links of a mounted ConfigMap or
// Secret do. Any other link stays as it is, and ReadPublicKey refuses it.
fs::path FollowedWithin(const fs::path& folder, const fs::path& file) {
  std::error_code error;
  const fs::path target = fs::canonical(file, error);
  if (error) return file;
  const fs::path relative = target.lexically_relative(fs::canonical(folder, error));
  return error || relative.empty() || *relative.begin() == ".." ? file : target;
}

absl::StatusOr<std::vector<PublicKey>> ReadKeys(const std::vector<fs::path>& files) {
  std::vector<PublicKey> keys;
  for (const fs::path& file : files) {
    ASSIGN_OR_RETURN(keys.emplace_back(),
                     ReadPublicKey(FollowedWithin(file.parent_path(), file).string()));
  }
  return keys;
}

bool Contains(const std::vector<PublicKey>& keys, const PublicKey& key) {
  return std::ranges::find(keys, key) != keys.end();
}

}  // namespace

bool Keyring::Trusts(std::span<const uint8_t> public_key) const {
  return std::ranges::any_of(
      keys_, [&](const PublicKey& key) { return std::ranges::equal(key, public_key); });
}

absl::Status Keyring::Verify(RecordKind kind, const SignedRecord& signed_record) const {
  for (const PublicKey& key : keys_) {
    if (std::ranges::equal(key, signed_record.public_key)) {
      return VerifySignature(kind, signed_record, key);
    }
  }
  // The message says which key has signed it and which keys are trusted.
  return VerifySignature(kind, signed_record, keys_.front());
}

absl::StatusOr<Keyring> ReadKeyring(const std::string& path) {
  ASSIGN_OR_RETURN(const Bytes bytes,
                   ReadKeyFile(path, sizeof(PublicKey), kMaxTrustedKeys * sizeof(PublicKey)));
  if (bytes.size() % sizeof(PublicKey) != 0) {
    return DataLoss("key file ", path, " has ", bytes.size(), " bytes, no multiple of ",
                    sizeof(PublicKey));
  }
  std::vector<PublicKey> keys(bytes.size() / sizeof(PublicKey));
  for (size_t i = 0; i < keys.size(); ++i) {
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(i * sizeof(PublicKey)),
                sizeof(PublicKey), keys[i].begin());
  }
  return Keyring(std::move(keys));
}

absl::Status WriteKeyring(const std::string& path, const Keyring& keyring) {
  const absl::StatusOr<Keyring> published = ReadKeyring(path);
  if (published.ok() && *published == keyring) return absl::OkStatus();
  Bytes bytes;
  for (const PublicKey& key : keyring.keys()) bytes.insert(bytes.end(), key.begin(), key.end());
  return WriteKeyFile(path, bytes, 0644);
}

TrustedKeys::TrustedKeys(const PublicKey& own, std::string folder)
    : own_(own),
      folder_(std::move(folder)),
      keyring_(std::make_shared<const Keyring>(std::vector<PublicKey>{own})) {}

std::shared_ptr<const Keyring> TrustedKeys::keyring() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return keyring_;
}

absl::StatusOr<bool> TrustedKeys::Reload() {
  if (folder_.empty()) return false;
  std::error_code error;
  std::vector<fs::path> trusted_files;
  std::vector<fs::path> revoked_files;
  for (const fs::directory_entry& file : fs::directory_iterator(folder_, error)) {
    if (file.path().extension() == ".pub") trusted_files.push_back(file.path());
    if (file.path().extension() == ".revoked") revoked_files.push_back(file.path());
  }
  if (error) {
    return Error(absl::StatusCode::kUnavailable, "folder of trusted keys ", folder_, ": ",
                 error.message());
  }
  std::ranges::sort(trusted_files);
  ASSIGN_OR_RETURN(const std::vector<PublicKey> trusted, ReadKeys(trusted_files));
  ASSIGN_OR_RETURN(const std::vector<PublicKey> revoked, ReadKeys(revoked_files));
  if (Contains(revoked, own_)) {
    return Error(absl::StatusCode::kFailedPrecondition, "this server's own key ",
                 ToHex(own_).substr(0, 16), " is revoked in ", folder_, "; remove the store's ",
                 kSecretKeyFile, " to sign with a new one");
  }
  std::vector<PublicKey> keys{own_};
  for (const PublicKey& key : trusted) {
    if (!Contains(revoked, key) && !Contains(keys, key)) keys.push_back(key);
  }
  if (keys.size() > kMaxTrustedKeys) {
    return InvalidArgument(folder_, " has ", keys.size(), " keys; at most ", kMaxTrustedKeys,
                           " are trusted");
  }
  auto keyring = std::make_shared<const Keyring>(std::move(keys));
  std::lock_guard<std::mutex> lock(mutex_);
  if (*keyring == *keyring_) return false;
  keyring_ = std::move(keyring);
  return true;
}

}  // namespace hpu::store
