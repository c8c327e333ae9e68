// RedisRecipeStore: lists, and entries out of service.
#include <algorithm>
#include <set>

#include "base/log.h"
#include "recipe_store/redis/redis_recipe_store.h"

namespace hpu::store {
namespace {

using Kind = RedisReply::Kind;

// Records that are read at once.
constexpr size_t kPage = 64;
constexpr size_t kMaxNameBytes = 128;
constexpr size_t kMaxReasonBytes = 4096;

std::string NowSeconds() {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count());
}

}  // namespace

Deadline RedisRecipeStore::ListDeadline() const {
  return client_->DeadlineFor(0) + (kListTimes - 1) * client_->options().command_timeout;
}

// Each page has the time of a call; all of them together that of a list.
Deadline RedisRecipeStore::PageDeadline(Deadline deadline) const {
  return std::min(deadline, client_->DeadlineFor(0));
}

// Those that are there.
absl::StatusOr<std::vector<RedisRecipeStore::Listed>> RedisRecipeStore::ReadRecords(
    RedisKind kind, const std::vector<Digest>& names, Deadline deadline) {
  std::vector<Listed> records;
  for (size_t begin = 0; begin < names.size(); begin += kPage) {
    const size_t end = std::min(begin + kPage, names.size());
    std::vector<RedisCommand> commands;
    for (size_t i = begin; i < end; ++i) {
      commands.push_back(Read(key(kind, names[i]), kMaxStoredRecordBytes));
    }
    ASSIGN_OR_RETURN(std::vector<RedisReply> replies,
                     client_->Run(commands, PageDeadline(deadline)));
    for (size_t i = begin; i < end; ++i) {
      RedisReply& reply = replies[i - begin];
      if (reply.kind != Kind::kText || reply.bytes.empty()) continue;
      records.push_back({names[i], std::move(reply.bytes)});
    }
  }
  return records;
}

// Names whose records are gone are taken out of the index at the end. One that is put at that very
// moment may then be missing from lists until it is put again.
absl::Status RedisRecipeStore::ForEachPage(Deadline deadline, const TakePage& take) {
  const std::string index_key = key(RedisKind::kManifests);
  std::set<Digest> seen;  // ranks move while names come in
  std::vector<std::string> gone = {"ZREM", index_key};
  for (size_t at = 0; at < kMaxListed; at += kPage) {
    RedisCommand command =
        OnKey({"ZREVRANGE", index_key, std::to_string(at), std::to_string(at + kPage - 1)});
    command.limit = {.bytes = kPage * kMaxNameBytes, .elements = kPage};
    ASSIGN_OR_RETURN(const RedisReply reply, client_->RunOne(command, PageDeadline(deadline)));
    RETURN_IF_ERROR(ExpectKind(reply, Kind::kArray, "reading the list " + index_key));
    if (reply.elements.empty()) break;
    std::vector<Digest> names;
    for (const RedisReply& element : reply.elements) {
      const std::optional<Digest> name = DigestFromHex(element.text());
      if (!name) gone.push_back(element.text());
      if (name && seen.insert(*name).second) names.push_back(*name);
    }
    ASSIGN_OR_RETURN(std::vector<Listed> page, ReadRecords(RedisKind::kManifest, names, deadline));
    std::set<Digest> there;
    for (const Listed& listed : page) there.insert(listed.name);
    for (const Digest& name : names) {
      if (!there.contains(name)) gone.push_back(ToHex(name));
    }
    ASSIGN_OR_RETURN(const bool more, take(std::move(page)));
    if (!more) break;
  }
  if (gone.size() == 2) return absl::OkStatus();
  RedisCommand prune = OnKey(std::move(gone));
  prune.optional = true;
  return client_->RunOne(prune, PageDeadline(deadline)).status();
}

absl::StatusOr<std::vector<Manifest>> RedisRecipeStore::List(
    size_t limit, const std::optional<ListPosition>& after) {
  std::vector<Manifest> manifests;
  const absl::Status listed =
      ForEachPage(ListDeadline(), [&](std::vector<Listed> page) -> absl::StatusOr<bool> {
        for (const Listed& item : page) {
          const auto record = DecodeSignedRecord(item.record);
          if (!record.ok()) continue;
          absl::StatusOr<Manifest> manifest = DecodeManifest(record->record);
          if (!manifest.ok() || (after && PositionOf(*manifest) >= *after)) continue;
          manifests.push_back(*std::move(manifest));
        }
        return limit == 0 || manifests.size() < limit;
      });
  if (!listed.ok()) {
    ++errors_;
    return listed;
  }
  NewestFirst(manifests, limit);
  return manifests;
}

absl::Status RedisRecipeStore::Quarantine(const Digest& name, const std::string& reason) {
  const Deadline deadline = client_->DeadlineFor(0);
  Bytes record;
  if (absl::Status status = TakeOutOfService(name, deadline, &record); !status.ok()) {
    ++errors_;
    return status;
  }
  if (record.empty()) return absl::OkStatus();
  ++quarantined_;
  // The rest is for people, and for the memory of the engine.
  for (const absl::Status& status :
       {KeepAside(name, reason, record, deadline), DropAliasesOf(name, deadline),
        DropBadBlobs(record, deadline)}) {
    if (status.ok()) continue;
    ++errors_;
    HPU_LOG(kDebug, "quarantine incomplete key=" << ToHex(name) << " error=" << ToText(status));
  }
  return absl::OkStatus();
}

// `record` is what was there; empty if nothing was.
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
