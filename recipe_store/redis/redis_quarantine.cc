// The quarantine of RedisRecipeStore.
#include <chrono>

#include "base/log.h"
#include "recipe_store/redis/redis_recipe_store.h"

namespace hpu::store {
namespace {

using Kind = RedisReply::Kind;

constexpr size_t kMaxNameBytes = 128;
constexpr size_t kMaxReasonBytes = 4096;

std::string NowSeconds() {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count());
}

}  // namespace

absl::Status RedisRecipeStore::Quarantine(const Digest& name, const std::string& reason) {
  const Deadline deadline = client_->DeadlineFor(0);
  Bytes record;
  if (absl::Status status = TakeOutOfService(name, deadline, &record); !status.ok()) {
    ++counters_.errors;
    return status;
  }
  if (record.empty()) return absl::OkStatus();
  ++quarantined_;
  // The rest serves people who inspect the entry, and frees memory of the engine.
  for (const absl::Status& status :
       {KeepAside(name, reason, record, deadline), DropAliasesOf(name, deadline),
        DropBadBlobs(record, deadline)}) {
    if (status.ok()) continue;
    ++counters_.errors;
    HPU_LOG(kDebug, "quarantine incomplete key=" << ToHex(name) << " error=" << ToText(status));
  }
  return absl::OkStatus();
}

// Sets `record` to the manifest's record, or to nothing if there was no manifest.
absl::Status RedisRecipeStore::TakeOutOfService(const Digest& name, Deadline deadline,
                                                Bytes* record) {
  const std::string manifest = key(RedisKind::kManifest, name);
  const RedisCommand commands[] = {Read(manifest, kMaxStoredRecordBytes), OnKey({"DEL", manifest}),
                                   OnKey({"ZREM", key(RedisKind::kManifests), ToHex(name)})};
  ASSIGN_OR_RETURN(std::vector<RedisReply> replies, client_->Run(commands, deadline));
  RETURN_IF_ERROR(ExpectKind(replies[1], Kind::kInteger, "deleting manifest " + ToHex(name)));
  *record = std::move(replies[0].bytes);
  return absl::OkStatus();
}

absl::Status RedisRecipeStore::KeepAside(const Digest& name, const std::string& reason,
                                         const Bytes& record, Deadline deadline) {
  const std::string head = reason.substr(0, kMaxReasonBytes) + "\n";
  Bytes bytes(head.begin(), head.end());
  bytes.insert(bytes.end(), record.begin(), record.end());
  const std::string index = key(RedisKind::kQuarantine);
  const std::string last = "-" + std::to_string(kMaxQuarantined + 1);
  RedisCommand commands[] = {
      Write(key(RedisKind::kQuarantined, name), bytes, client_->options().entry_ttl),
      OnKey({"ZADD", index, NowSeconds(), ToHex(name)}), OnKey({"ZRANGE", index, "0", last}),
      OnKey({"ZREMRANGEBYRANK", index, "0", last})};
  commands[2].limit = {.bytes = kMaxPipeline * kMaxNameBytes, .elements = kMaxPipeline};
  ASSIGN_OR_RETURN(const std::vector<RedisReply> replies, client_->Run(commands, deadline));
  RETURN_IF_ERROR(CheckWritten(replies[0], "keeping a damaged manifest aside"));
  std::vector<RedisCommand> deletions;
  for (const RedisReply& element : replies[2].elements) {
    const std::optional<Digest> old = DigestFromHex(element.text());
    if (old) deletions.push_back(OnKey({"DEL", key(RedisKind::kQuarantined, *old)}));
  }
  return client_->Run(deletions, deadline).status();
}

absl::Status RedisRecipeStore::DropBadBlobs(const Bytes& record, Deadline deadline) {
  const absl::StatusOr<SignedRecord> signed_manifest = DecodeSignedRecord(record);
  if (!signed_manifest.ok()) return absl::OkStatus();
  const absl::StatusOr<Manifest> manifest = DecodeManifest(signed_manifest->record);
  if (!manifest.ok()) return absl::OkStatus();
  for (const BlobRef& ref : BlobRefs(*manifest)) {
    if (ref.size_bytes > client_->options().max_entry_bytes) continue;
    deadline += client_->TimeFor(ref.size_bytes);
    const std::string blob = key(RedisKind::kBlob, ref.digest);
    ASSIGN_OR_RETURN(const RedisReply reply, client_->RunOne(Read(blob, ref.size_bytes), deadline));
    if (reply.kind == Kind::kText && (reply.bytes.empty() || Sha256(reply.bytes) == ref.digest)) {
      continue;
    }
    RETURN_IF_ERROR(client_->RunOne(OnKey({"DEL", blob}), deadline).status());
  }
  return absl::OkStatus();
}

}  // namespace hpu::store
