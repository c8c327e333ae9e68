#include "compiler_server/service/programs/program_stream.h"

#include <algorithm>

namespace hpu::server {
namespace {

void Copy(const store::SignedRecord& from, wire::SignedRecord* to) {
  to->set_record(from.record.data(), from.record.size());
  to->set_signature(from.signature.data(), from.signature.size());
  to->set_public_key(from.public_key.data(), from.public_key.size());
}

}  // namespace

bool ProgramStream::Next(wire::ProgramPart* part) {
  if (AtEnd()) return false;
  part->clear_header();
  if (!header_sent_) {
    Copy(entry_.signed_manifest, part->mutable_header()->mutable_manifest());
    if (alias_ != nullptr) Copy(alias_->signed_record, part->mutable_header()->mutable_alias());
    header_sent_ = true;
  }
  std::string& chunk = *part->mutable_chunk();
  chunk.clear();
  for (; blob_ < entry_.blobs.size(); ++blob_, offset_ = 0) {
    const Bytes& blob = *entry_.blobs[blob_];
    const size_t size = std::min(chunk_bytes_ - chunk.size(), blob.size() - offset_);
    const auto begin = blob.begin() + static_cast<std::ptrdiff_t>(offset_);
    chunk.append(begin, begin + static_cast<std::ptrdiff_t>(size));
    offset_ += size;
    if (offset_ < blob.size()) break;
  }
  return true;
}

}  // namespace hpu::server
