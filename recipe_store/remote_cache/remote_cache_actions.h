// What the names of this store are in a Remote Execution API cache, where results are filed under
// digests of actions and all else under its own digest (docs/formats.md):
//
//   command  Command { arguments: ["hpu-recipe-store-v1", "program" | "alias", NAME] }
//            NAME is the content key or the alias's id, hexadecimal
//   action   Action { command_digest: of the serialised command
//                     input_root_digest: of the empty Directory, which has no bytes }
//   name     SHA-256 of the serialised action
//
// Nobody runs such an action; both messages are stored, because a server may want to know what a
// result is of. The result has the signed record as output file "record", and each of a program's
// blobs, once, as "blob/<number>": so that a server that checks or prolongs the life of what a
// result names does it for all of them. A reader goes by the record alone. A result without a
// record is one that was withdrawn: nothing can be deleted there.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "recipe_store/signing/manifest.h"
#include "remote_execution.pb.h"

namespace hpu::store {

namespace reapi = ::build::bazel::remote::execution::v2;

// More blobs than a result, which is one message, has room for.
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
// Nothing unless it is a SHA-256 digest with a size.
std::optional<BlobRef> FromRemote(const reapi::Digest& digest);

// `blobs`: each digest once.
reapi::ActionResult ResultOf(const BlobRef& record, const std::vector<BlobRef>& blobs);
reapi::ActionResult WithdrawnResult();

struct RecordFile {
  BlobRef ref;
  std::optional<Bytes> contents;  // with that digest
};

// NOT_FOUND: withdrawn, or somebody else's. DATA_LOSS: sizes that no record has, contents with
// another digest.
absl::StatusOr<RecordFile> RecordIn(const reapi::ActionResult& result);

}  // namespace hpu::store
