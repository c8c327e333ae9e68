#include "compiler_server/service/program_stream.h"

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
  if (!header_sent_) {
    Copy(entry_.signed_manifest, part->mutable_header()->mutable_manifest());
    if (alias_ != nullptr) Copy(alias_->signed_record, part->mutable_header()->mutable_alias());
    header_sent_ = true;
    return true;
  }
  while (blob_ < entry_.blobs.size() && offset_ == entry_.blobs[blob_]->size()) {
    ++blob_;
    offset_ = 0;
  }
  if (blob_ == entry_.blobs.size()) return false;
  const Bytes& blob = *entry_.blobs[blob_];
  const size_t size = std::min(chunk_bytes_, blob.size() - offset_);
  part->set_chunk(blob.data() + offset_, size);
  offset_ += size;
  return true;
}

}  // namespace hpu::server
