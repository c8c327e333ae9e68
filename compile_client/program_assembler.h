// Assembles a program from the parts that arrive, and releases it only after it has been verified:
// signatures by a trusted key, the alias and manifest that were asked for, and the digest of every
// blob.
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
// With a Content, the program must have exactly this content; any compiler may have made it.
using Wanted = std::variant<ByFrontEndKey, ByContentKey, store::Content>;

class ProgramAssembler {
 public:
  ProgramAssembler(Wanted wanted, std::shared_ptr<const store::Keyring> trusted)
      : wanted_(std::move(wanted)), trusted_(std::move(trusted)) {}

  // Returns DATA_LOSS if the parts do not fit together, and PERMISSION_DENIED if a trusted key has
  // not signed them, or has signed something else than was asked for.
  absl::Status Add(const wire::ProgramPart& part);

  // The alias that was received, if the program was asked for by its front-end key.
  const std::optional<store::AliasRecord>& alias() const { return alias_; }

  // To be called after the last part. Returns DATA_LOSS if something is missing or damaged.
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
  std::vector<Bytes> blobs_;  // the complete blobs, then the one that is being filled
};

}  // namespace hpu::client
