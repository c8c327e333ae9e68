// Puts a program together from the parts of the wire and lets it out only when it is verified:
// signature by the trusted key, manifest of the wanted key, digest of every blob.
#pragma once

#include "compile_service.pb.h"
#include "recipe_store/recipe_store.h"
#include "recipe_store/signing.h"

namespace hpu::client {

class ProgramAssembler {
 public:
  ProgramAssembler(const Digest& key, const store::PublicKey& trusted)
      : key_(key), trusted_(trusted) {}

  // DATA_LOSS: parts that do not fit together. PERMISSION_DENIED: not signed by the trusted key, or
  // signed for another key.
  absl::Status Add(const wire::ProgramPart& part);

  bool started() const { return started_; }

  // After the last part. DATA_LOSS: something is missing or damaged.
  absl::StatusOr<store::Entry> Finish();

 private:
  absl::Status AddHeader(const wire::SignedManifest& header);
  absl::Status AddChunk(const std::string& chunk);
  void NextBlob();

  const Digest key_;
  const store::PublicKey trusted_;
  bool started_ = false;
  store::SignedManifest signed_manifest_;
  std::vector<store::BlobRef> refs_;
  std::vector<Bytes> blobs_;  // complete ones, then the one that is being filled
};

}  // namespace hpu::client
