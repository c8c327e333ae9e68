#include "tests/store/store_testing.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "base/status.h"

namespace hpu::store {

const SigningKey& TestKey() {
  static const SigningKey* const key = new SigningKey(SigningKey::Generate());
  return *key;
}

const TrustedKeys& TestKeys() {
  static const auto* const keys = new TrustedKeys(TestKey().public_key(), "");
  return *keys;
}

Digest DigestOf(uint64_t number) {
  Hasher hasher;
  return hasher.Field("test key").Number(static_cast<int64_t>(number)).Finish();
}

Content ContentOf(uint64_t number) {
  return {DigestOf(number), {{"deterministic", "false"}}, "gaudi2", "x86-64-v3", "test build"};
}

Digest KeyOf(uint64_t number) { return ContentKey(ContentOf(number)); }

AliasRecord AliasOf(uint64_t number, uint64_t program, const std::string& tenant,
                    const SigningKey& signer) {
  Alias alias;
  alias.tenant = tenant;
  alias.front_end_key = DigestOf(number);
  alias.content_key = KeyOf(program);
  alias.created_unix_seconds = static_cast<int64_t>(number);
  alias.factors = {{"graph", ToHex(DigestOf(number))}};
  alias.label = "graph_" + std::to_string(number);
  return {signer.Sign(RecordKind::kAlias, EncodeAlias(alias).value()), alias};
}

Bytes BytesOf(uint64_t seed, size_t size) {
  Bytes bytes(size);
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (uint8_t& byte : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<uint8_t>(state >> 56);
  }
  return bytes;
}

Entry EntryOf(uint64_t number, std::vector<Bytes> blobs, int64_t created) {
  Manifest manifest;
  manifest.content = ContentOf(number);
  manifest.program = {Sha256(blobs[0]), blobs[0].size()};
  for (size_t i = 1; i < blobs.size(); ++i) {
    manifest.recipes.push_back({Sha256(blobs[i]), blobs[i].size()});
  }
  manifest.compile_micros = 5000;
  manifest.created_unix_seconds = created;
  std::vector<Blob> shared;
  for (Bytes& bytes : blobs) shared.push_back(std::make_shared<const Bytes>(std::move(bytes)));
  return MakeEntry(TestKey().Sign(RecordKind::kManifest, EncodeManifest(manifest).value()),
                   std::move(shared))
      .value();
}

Entry EntryOf(uint64_t number, size_t recipes, size_t bytes) {
  std::vector<Bytes> blobs = {BytesOf(number, 100)};
  for (size_t i = 0; i < recipes; ++i) blobs.push_back(BytesOf(number * 1000 + i + 1, bytes));
  return EntryOf(number, std::move(blobs), static_cast<int64_t>(number));
}

bool SameEntry(const Entry& a, const Entry& b) {
  if (!(a.signed_manifest == b.signed_manifest) || a.blobs.size() != b.blobs.size()) return false;
  for (size_t i = 0; i < a.blobs.size(); ++i) {
    if (*a.blobs[i] != *b.blobs[i]) return false;
  }
  return true;
}

// The system call changes one thread; the C library's function would change them all.
AsOtherUser::AsOtherUser() { HPU_CHECK(syscall(SYS_setresuid, -1, kUser, -1) == 0); }

AsOtherUser::~AsOtherUser() { HPU_CHECK(syscall(SYS_setresuid, -1, 0, -1) == 0); }

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "hpu-store-XXXXXX").string();
  path_ = mkdtemp(name.data());
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

}  // namespace hpu::store
