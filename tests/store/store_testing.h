// Entries and stores for tests.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "recipe_store/recipe_store.h"
#include "recipe_store/signing/keyring.h"

namespace hpu::store {

// The key pair of a test program.
const SigningKey& TestKey();
// A server's keyring that trusts it alone.
const TrustedKeys& TestKeys();

Digest DigestOf(uint64_t number);
Bytes BytesOf(uint64_t seed, size_t size);  // equal for equal arguments

Content ContentOf(uint64_t number);
Digest KeyOf(uint64_t number);  // its content key

// A signed entry with the given blobs: program first, then recipes.
Entry EntryOf(uint64_t number, std::vector<Bytes> blobs, int64_t created = 1000);
// One program of 100 bytes and `recipes` recipes of `bytes` each; contents follow from `number`.
Entry EntryOf(uint64_t number, size_t recipes = 1, size_t bytes = 1000);

// The signed alias DigestOf(number) of the entry `program`.
AliasRecord AliasOf(uint64_t number, uint64_t program, const std::string& tenant = "local",
                    const SigningKey& signer = TestKey());
inline Digest AliasIdOf(uint64_t number, const std::string& tenant = "local") {
  return AliasId(tenant, DigestOf(number));
}

// Equal manifest bytes, signature and blob contents.
bool SameEntry(const Entry& a, const Entry& b);

// The calling thread is another user (65534) while the object lives, and so are the threads that it
// starts in that time; the rest of the process stays root. For root only.
class AsOtherUser {
 public:
  static constexpr uid_t kUser = 65534;
  AsOtherUser();
  ~AsOtherUser();
  AsOtherUser(const AsOtherUser&) = delete;
};

// A folder that goes with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  std::string path(const std::string& name = "") const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace hpu::store
