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

// Returns the key pair of a test program.
const SigningKey& TestKey();
// Returns a server's keyring that trusts that key alone.
const TrustedKeys& TestKeys();

Digest DigestOf(uint64_t number);
Bytes BytesOf(uint64_t seed, size_t size);  // equal for equal arguments

Content ContentOf(uint64_t number);
Digest KeyOf(uint64_t number);  // the content key of ContentOf(number)

// Returns a signed entry with the given blobs: the program first, then the recipes.
Entry EntryOf(uint64_t number, std::vector<Bytes> blobs, int64_t created = 1000);
// Returns an entry with one program of 100 bytes and `recipes` recipes of `bytes` each. Their
// contents follow from `number`.
Entry EntryOf(uint64_t number, size_t recipes = 1, size_t bytes = 1000);

// Returns the signed alias DigestOf(number) of the entry `program`.
AliasRecord AliasOf(uint64_t number, uint64_t program, const std::string& tenant = "local",
                    const SigningKey& signer = TestKey());
inline Digest AliasIdOf(uint64_t number, const std::string& tenant = "local") {
  return AliasId(tenant, DigestOf(number));
}

// Returns true if manifest bytes, signature and blob contents are equal.
bool SameEntry(const Entry& a, const Entry& b);

// While an AsOtherUser lives, the calling thread is another user (65534), and so are the threads
// that it starts in that time. The rest of the process stays root. Only root can do that.
class AsOtherUser {
 public:
  static constexpr uid_t kUser = 65534;
  AsOtherUser();
  ~AsOtherUser();
  AsOtherUser(const AsOtherUser&) = delete;
};

// A TemporaryFolder goes with the object.
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
