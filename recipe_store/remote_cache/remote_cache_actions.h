// These functions make the names of this store in a Remote Execution API cache. Such a cache files
// results under digests of actions, and everything else under its own digest (docs/formats.md):
//
//   command  Command { arguments: ["hpu-recipe-store-v1", "program" | "alias", NAME] }
//            NAME is the content key or the alias's id, hexadecimal
//   action   Action { command_digest: of the serialised command
//                     input_root_digest: of the empty Directory, which has no bytes }
//   name     SHA-256 of the serialised action
//
// Nobody runs such an action. Both messages are stored, because a server may want to know what a
// result belongs to. The result has the signed record as output file "record", and each of a
// program's blobs, once, as "blob/<number>", so that a server that checks or prolongs the life of
// what a result names does it for all of them. A reader uses the record alone. A result without a
// record was withdrawn, because nothing can be deleted there.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "recipe_store/signing/manifest.h"
#include "remote_execution.pb.h"

namespace hpu::store {

namespace reapi = ::build::bazel::remote::execution::v2;

// A result is one message and has no room for more blobs.
inline constexpr size_t kMaxResultBlobs = 1 << 14;
inline constexpr char kRecordPath[] = "record";

struct RemoteBlob {
  BlobRef ref;
  Bytes bytes;
};

enum class RemoteKind { kProgram, kAlias };

struct RemoteAction {
  RemoteBlob command;
  RemoteBlob action;

  const BlobRef& name() const { return action.ref; }
};

RemoteAction ActionOf(RemoteKind kind, const Digest& name);

reapi::Digest ToRemote(const BlobRef& ref);
// Returns nothing unless it is a SHA-256 digest with a size.
std::optional<BlobRef> FromRemote(const reapi::Digest& digest);

// `blobs` must have each digest once.
reapi::ActionResult ResultOf(const BlobRef& record, const std::vector<BlobRef>& blobs);
reapi::ActionResult WithdrawnResult();

struct RecordFile {
  BlobRef ref;
  // The contents have that digest.
  std::optional<Bytes> contents;
};

// Finds the record of a result. NOT_FOUND: the result was withdrawn, or is not ours. DATA_LOSS: the
// record has a size that no record has, or contents with another digest.
absl::StatusOr<RecordFile> RecordIn(const reapi::ActionResult& result);

}  // namespace hpu::store
