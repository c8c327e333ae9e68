// Puts a program together from the parts of the wire and lets it out only when it is verified:
// signatures by a trusted key, alias and manifest of what was wanted, digest of every blob.
#pragma once

#include <optional>
#include <variant>

#include "compile_service.pb.h"
#include "recipe_store/recipe_store.h"
#include "recipe_store/signing/keyring.h"

namespace hpu::client {

struct ByFrontEndKey {
  Digest key{};
};
struct ByContentKey {
  Digest key{};
};
// Content: a program of exactly this, whichever compiler made it.
using Wanted = std::variant<ByFrontEndKey, ByContentKey, store::Content>;

class ProgramAssembler {
 public:
  ProgramAssembler(Wanted wanted, std::shared_ptr<const store::Keyring> trusted)
      : wanted_(std::move(wanted)), trusted_(std::move(trusted)) {}

  // DATA_LOSS: parts that do not fit together. PERMISSION_DENIED: not signed by a trusted key, or
  // signed, but not what was wanted.
  absl::Status Add(const wire::ProgramPart& part);

  // The alias that came, where one was asked for by its front-end key.
  const std::optional<store::AliasRecord>& alias() const { return alias_; }

  // After the last part. DATA_LOSS: something is missing or damaged.
  absl::StatusOr<store::Entry> Finish();

 private:
  absl::Status AddHeader(const wire::ProgramHeader& header);
  absl::Status AddAlias(const wire::ProgramHeader& header, const Digest& front_end_key,
                        const Digest& content_key);
  absl::Status AddChunk(const std::string& chunk);
  void NextBlob();

  const Wanted wanted_;
  const std::shared_ptr<const store::Keyring> trusted_;
  bool started_ = false;
  store::SignedRecord signed_manifest_;
  std::optional<store::AliasRecord> alias_;
  std::vector<store::BlobRef> refs_;
  std::vector<Bytes> blobs_;  // complete ones, then the one that is being filled
};

}  // namespace hpu::client
