#include "recipe_store/remote_cache/remote_cache_actions.h"

namespace hpu::store {
namespace {

constexpr char kDomain[] = "hpu-recipe-store-v1";
constexpr char kWithdrawn[] = "hpu-recipe-store-v1: withdrawn";

RemoteBlob BlobOf(const google::protobuf::MessageLite& message) {
  RemoteBlob blob;
  blob.bytes = ToBytes(message.SerializeAsString());
  blob.ref = {Sha256(blob.bytes), blob.bytes.size()};
  return blob;
}

}  // namespace

RemoteAction ActionOf(RemoteKind kind, const Digest& name) {
  reapi::Command command;
  command.add_arguments(kDomain);
  command.add_arguments(kind == RemoteKind::kProgram ? "program" : "alias");
  command.add_arguments(ToHex(name));
  RemoteAction made;
  made.command = BlobOf(command);
  reapi::Action action;
  *action.mutable_command_digest() = ToRemote(made.command.ref);
  *action.mutable_input_root_digest() = ToRemote({Sha256({}), 0});
  made.action = BlobOf(action);
  return made;
}

reapi::Digest ToRemote(const BlobRef& ref) {
  reapi::Digest digest;
  digest.set_hash(ToHex(ref.digest));
  digest.set_size_bytes(static_cast<int64_t>(ref.size_bytes));
  return digest;
}

std::optional<BlobRef> FromRemote(const reapi::Digest& digest) {
  const std::optional<Digest> hash = DigestFromHex(digest.hash());
  if (!hash || digest.size_bytes() < 0) return std::nullopt;
  return BlobRef{*hash, static_cast<uint64_t>(digest.size_bytes())};
}

reapi::ActionResult ResultOf(const BlobRef& record, const std::vector<BlobRef>& blobs) {
  reapi::ActionResult result;
  reapi::OutputFile* file = result.add_output_files();
  file->set_path(kRecordPath);
  *file->mutable_digest() = ToRemote(record);
  for (size_t i = 0; i < blobs.size(); ++i) {
    file = result.add_output_files();
    file->set_path("blob/" + std::to_string(i));
    *file->mutable_digest() = ToRemote(blobs[i]);
  }
  return result;
}

// The result is not empty, because a server may take an empty result for none.
reapi::ActionResult WithdrawnResult() {
  reapi::ActionResult result;
  result.set_stdout_raw(kWithdrawn);
  return result;
}

absl::StatusOr<RecordFile> RecordIn(const reapi::ActionResult& result) {
  for (const reapi::OutputFile& file : result.output_files()) {
    if (file.path() != kRecordPath) continue;
    const std::optional<BlobRef> ref = FromRemote(file.digest());
    if (!ref || ref->size_bytes == 0 || ref->size_bytes > kMaxStoredRecordBytes) {
      return DataLoss("the result names a record of ", file.digest().size_bytes(), " bytes, or ",
                      "one without a SHA-256 digest; at most ", kMaxStoredRecordBytes,
                      " are allowed");
    }
    RecordFile record{*ref, std::nullopt};
    if (file.contents().empty()) return record;
    record.contents = ToBytes(file.contents());
    if (record.contents->size() != ref->size_bytes || Sha256(*record.contents) != ref->digest) {
      return DataLoss("the result has a record of ", record.contents->size(),
                      " bytes with another digest than it says");
    }
    return record;
  }
  return NotFound("the result has no record");
}

}  // namespace hpu::store
