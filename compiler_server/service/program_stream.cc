#include "compiler_server/service/program_stream.h"

#include <algorithm>

namespace hpu::server {

bool ProgramStream::Next(wire::ProgramPart* part) {
  if (!header_sent_) {
    const store::SignedManifest& from = entry_.signed_manifest;
    wire::SignedManifest* header = part->mutable_header();
    header->set_manifest(from.manifest.data(), from.manifest.size());
    header->set_signature(from.signature.data(), from.signature.size());
    header->set_public_key(from.public_key.data(), from.public_key.size());
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
