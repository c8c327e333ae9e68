#include "backend/client/program_assembler.h"

#include <algorithm>

namespace hpu::client {
namespace {

// A manifest may announce more than ever comes; memory is taken as bytes arrive beyond this.
constexpr uint64_t kMaxReserveBytes = 64 << 20;

Bytes ToBytes(const std::string& text) { return Bytes(text.begin(), text.end()); }

}  // namespace

absl::Status ProgramAssembler::Add(const wire::ProgramPart& part) {
  switch (part.part_case()) {
    case wire::ProgramPart::kHeader:
      return AddHeader(part.header());
    case wire::ProgramPart::kChunk:
      return AddChunk(part.chunk());
    case wire::ProgramPart::PART_NOT_SET:
      break;
  }
  return DataLoss("the server sent an empty part");
}

absl::Status ProgramAssembler::AddHeader(const wire::SignedManifest& header) {
  if (started_) return DataLoss("the server sent two manifests");
  signed_manifest_ = {ToBytes(header.manifest()), ToBytes(header.signature()),
                      ToBytes(header.public_key())};
  RETURN_IF_ERROR(store::VerifySignature(signed_manifest_, trusted_));
  ASSIGN_OR_RETURN(const store::Manifest manifest,
                   store::DecodeManifest(signed_manifest_.manifest));
  if (manifest.key != key_) {
    return Error(absl::StatusCode::kPermissionDenied,
                 "the server answered with the program of key ", ToHex(manifest.key).substr(0, 16),
                 " instead of ", ToHex(key_).substr(0, 16));
  }
  refs_ = store::BlobRefs(manifest);
  started_ = true;
  NextBlob();
  return absl::OkStatus();
}

absl::Status ProgramAssembler::AddChunk(const std::string& chunk) {
  if (!started_) return DataLoss("the server sent bytes before the manifest");
  if (blobs_.size() <= refs_.size() &&
      blobs_.back().size() == refs_[blobs_.size() - 1].size_bytes) {
    NextBlob();
  }
  if (blobs_.size() > refs_.size()) {
    return DataLoss("the server sent more bytes than the manifest names");
  }
  Bytes& blob = blobs_.back();
  if (chunk.size() > refs_[blobs_.size() - 1].size_bytes - blob.size()) {
    return DataLoss("blob ", blobs_.size() - 1, " is longer than the manifest says");
  }
  blob.insert(blob.end(), chunk.begin(), chunk.end());
  return absl::OkStatus();
}

// Opens the next blob that has bytes; empty ones are complete as they are.
void ProgramAssembler::NextBlob() {
  do {
    blobs_.emplace_back();
  } while (blobs_.size() < refs_.size() && refs_[blobs_.size() - 1].size_bytes == 0);
  if (blobs_.size() > refs_.size()) return;
  blobs_.back().reserve(std::min(refs_[blobs_.size() - 1].size_bytes, kMaxReserveBytes));
}

absl::StatusOr<store::Entry> ProgramAssembler::Finish() {
  if (!started_) return DataLoss("the server sent no program");
  blobs_.resize(refs_.size());
  std::vector<store::Blob> shared;
  for (Bytes& blob : blobs_) shared.push_back(std::make_shared<const Bytes>(std::move(blob)));
  ASSIGN_OR_RETURN(store::Entry entry,
                   store::MakeEntry(std::move(signed_manifest_), std::move(shared)));
  RETURN_IF_ERROR(store::CheckDigests(entry));
  return entry;
}

}  // namespace hpu::client
