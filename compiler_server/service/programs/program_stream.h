// Cuts an entry into messages of the protocol. A small entry is one message.
#pragma once

#include "compile_service.pb.h"
#include "recipe_store/recipe_store.h"

namespace hpu::server {

class ProgramStream {
 public:
  // `entry` and `alias` must live longer. `alias` is the one that was asked for; null if the
  // program was asked for by its content key.
  ProgramStream(const store::Entry& entry, const store::AliasRecord* alias, size_t chunk_bytes)
      : entry_(entry), alias_(alias), chunk_bytes_(chunk_bytes) {}

  // Fills the next message; false after the last one.
  bool Next(wire::ProgramPart* part);
  // Whether the last message was the final one.
  bool AtEnd() const { return header_sent_ && blob_ == entry_.blobs.size(); }

 private:
  const store::Entry& entry_;
  const store::AliasRecord* const alias_;
  const size_t chunk_bytes_;
  bool header_sent_ = false;
  size_t blob_ = 0;
  size_t offset_ = 0;
};

}  // namespace hpu::server
