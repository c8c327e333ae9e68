#include "compile_client/program_assembler.h"

#include <algorithm>

namespace hpu::client {
namespace {

// A manifest may announce more bytes than ever arrive. Beyond this number, memory is allocated as
// they arrive.
constexpr uint64_t kMaxReserveBytes = 64 << 20;

std::string Short(const Digest& digest) { return ToHex(digest).substr(0, 16); }

absl::StatusOr<store::SignedRecord> Verified(store::RecordKind kind,
                                             const wire::SignedRecord& message,
                                             const store::Keyring& trusted) {
  store::SignedRecord record{store::ToBytes(message.record()), store::ToBytes(message.signature()),
                             store::ToBytes(message.public_key())};
  RETURN_IF_ERROR(trusted.Verify(kind, record));
  return record;
}

absl::Status Another(const char* what, const Digest& got, const Digest& wanted) {
  return Error(absl::StatusCode::kPermissionDenied, "the server answered with ", what, " ",
               Short(got), " instead of ", Short(wanted));
}

absl::Status CheckContent(const store::Content& got, store::Content wanted) {
  wanted.compiler_build_id = got.compiler_build_id;
  if (got == wanted) return absl::OkStatus();
  if (got.graph != wanted.graph) return Another("the program of graph", got.graph, wanted.graph);
  return Error(absl::StatusCode::kPermissionDenied,
               "the server answered with a program for device ", got.device_kind, " ",
               got.isa_level, " instead of ", wanted.device_kind, " ", wanted.isa_level,
               ", or made with other options");
}

}  // namespace

absl::Status ProgramAssembler::Add(const wire::ProgramPart& part) {
  if (part.has_header()) RETURN_IF_ERROR(AddHeader(part.header()));
  if (!part.has_header() && part.chunk().empty()) return DataLoss("the server sent an empty part");
  return part.chunk().empty() ? absl::OkStatus() : AddChunk(part.chunk());
}

absl::Status ProgramAssembler::AddHeader(const wire::ProgramHeader& header) {
  if (started_) return DataLoss("the server sent two manifests");
  ASSIGN_OR_RETURN(signed_manifest_,
                   Verified(store::RecordKind::kManifest, header.manifest(), *trusted_));
  ASSIGN_OR_RETURN(const store::Manifest manifest, store::DecodeManifest(signed_manifest_.record));
  if (const auto* by_front_end = std::get_if<ByFrontEndKey>(&wanted_)) {
    RETURN_IF_ERROR(AddAlias(header, by_front_end->key, manifest.key()));
  } else if (const auto* by_content = std::get_if<ByContentKey>(&wanted_)) {
    if (manifest.key() != by_content->key) {
      return Another("the program of content key", manifest.key(), by_content->key);
    }
  } else {
    RETURN_IF_ERROR(CheckContent(manifest.content, std::get<store::Content>(wanted_)));
  }
  refs_ = store::BlobRefs(manifest);
  started_ = true;
  NextBlob();
  return absl::OkStatus();
}

absl::Status ProgramAssembler::AddAlias(const wire::ProgramHeader& header,
                                        const Digest& front_end_key, const Digest& content_key) {
  ASSIGN_OR_RETURN(store::SignedRecord record,
                   Verified(store::RecordKind::kAlias, header.alias(), *trusted_));
  ASSIGN_OR_RETURN(alias_, store::MakeAliasRecord(std::move(record)));
  const store::Alias& alias = alias_->alias;
  if (alias.front_end_key != front_end_key) {
    return Another("the alias of front-end key", alias.front_end_key, front_end_key);
  }
  if (alias.content_key == content_key) return absl::OkStatus();
  return Another("the program of content key", content_key, alias.content_key);
}

absl::Status ProgramAssembler::AddChunk(const std::string& chunk) {
  if (!started_) return DataLoss("the server sent bytes before the manifest");
  for (size_t taken = 0; taken < chunk.size();) {
    if (blobs_.size() <= refs_.size() &&
        blobs_.back().size() == refs_[blobs_.size() - 1].size_bytes) {
      NextBlob();
    }
    if (blobs_.size() > refs_.size()) {
      return DataLoss("the server sent more bytes than the manifest names");
    }
    Bytes& blob = blobs_.back();
    const uint64_t missing = refs_[blobs_.size() - 1].size_bytes - blob.size();
    const size_t size = std::min<uint64_t>(missing, chunk.size() - taken);
    const auto begin = chunk.begin() + static_cast<std::ptrdiff_t>(taken);
    blob.insert(blob.end(), begin, begin + static_cast<std::ptrdiff_t>(size));
    taken += size;
  }
  return absl::OkStatus();
}

// Opens the next blob that has bytes; empty blobs are complete already.
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
