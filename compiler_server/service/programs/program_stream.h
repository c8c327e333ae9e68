// Cuts an entry into the messages of the wire. A small one is one message.
#pragma once

#include "compile_service.pb.h"
#include "recipe_store/recipe_store.h"

namespace hpu::server {

class ProgramStream {
 public:
  // `entry` and `alias`, by which it was asked for, must live longer; null = by its content key.
  ProgramStream(const store::Entry& entry, const store::AliasRecord* alias, size_t chunk_bytes)
      : entry_(entry), alias_(alias), chunk_bytes_(chunk_bytes) {}

  // Fills the next message; false after the last one.
  bool Next(wire::ProgramPart* part);
  // Whether that was the last one.
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
