#include "recipe_store/remote_cache/remote_cache_recipe_store.h"

#include <algorithm>

#include "base/log.h"
#include "recipe_store/stored_entry.h"

namespace hpu::store {
namespace {

using std::chrono::steady_clock;

constexpr size_t kMaxAvoided = 4096;
constexpr size_t kMaxDamaged = 4096;

}  // namespace

absl::StatusOr<Entry> RemoteCacheRecipeStore::Find(const Digest& key, Purpose purpose) {
  absl::StatusOr<Entry> entry = absl::UnknownError("");
  const absl::Status status =
      client_->Run(/*writes=*/false, /*bytes=*/0, [&](RemoteCacheCall& call) {
        entry = ReadEntry(key, purpose, call);
        NoteDamaged(call);
        return entry.status();
      });
  counters_.CountFind(status);
  if (!status.ok()) return status;
  return entry;
}

// Returns NOT_FOUND without asking the server if the action is avoided.
absl::StatusOr<Bytes> RemoteCacheRecipeStore::ReadRecord(const RemoteAction& action,
                                                         RemoteCacheCall& call) {
  if (Avoids(action)) {
    ++avoided_reads_;
    return NotFound("it was bad in the remote cache, which is not asked for it again for now");
  }
  ASSIGN_OR_RETURN(const reapi::ActionResult result, call.GetActionResult(action.name()));
  ASSIGN_OR_RETURN(RecordFile record, RecordIn(result));
  if (record.contents) return *std::move(record.contents);
  const absl::StatusOr<std::map<Digest, Blob>> found = call.Read({record.ref});
  if (absl::IsNotFound(found.status())) ++counters_.incomplete;
  if (!found.ok()) return found.status();
  return *found->at(record.ref.digest);
}

absl::StatusOr<Entry> RemoteCacheRecipeStore::ReadEntry(const Digest& key, Purpose purpose,
                                                        RemoteCacheCall& call) {
  ASSIGN_OR_RETURN(const Bytes record, ReadRecord(ActionOf(RemoteKind::kProgram, key), call));
  return MakeStoredEntry(key, purpose, record, client_->options().max_entry_bytes,
                         "the remote cache",
                         [&](const Manifest& manifest, const std::vector<BlobRef>& refs,
                             uint64_t bytes) { return ReadBlobs(manifest, refs, bytes, call); });
}

absl::StatusOr<std::map<Digest, Blob>> RemoteCacheRecipeStore::ReadBlobs(
    const Manifest& manifest, const std::vector<BlobRef>& refs, uint64_t bytes,
    RemoteCacheCall& call) {
  // Reading must not take longer than compiling would.
  const auto compile_time = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::microseconds(std::min<uint64_t>(manifest.compile_micros, INT64_MAX / 1000)));
  call.Extend(std::min(client_->TimeFor(bytes), compile_time));
  absl::StatusOr<std::map<Digest, Blob>> found = call.Read(refs);
  if (!absl::IsNotFound(found.status())) return found;
  ++counters_.incomplete;
  return NotFound("key ", ToHex(manifest.key()), ": the result is there, but ",
                  found.status().message());
}

absl::Status RemoteCacheRecipeStore::Put(const Entry& entry) {
  const uint64_t limit = client_->options().max_entry_bytes;
  const std::vector<BlobRef> refs = BlobRefs(entry.manifest);
  std::map<Digest, const Bytes*> blobs;
  for (size_t i = 0; i < refs.size(); ++i) {
    if (refs[i].size_bytes > 0) blobs[refs[i].digest] = entry.blobs[i].get();
  }
  absl::Status status;
  if (entry.size_bytes() > limit || blobs.size() > kMaxResultBlobs) {
    status = Error(absl::StatusCode::kResourceExhausted, "the entry has ", entry.size_bytes(),
                   " bytes in ", blobs.size(), " blobs, the remote cache is limited to ", limit,
                   " in ", kMaxResultBlobs, " for one");
  } else {
    const RemoteAction action = ActionOf(RemoteKind::kProgram, entry.manifest.key());
    const Bytes record = EncodeSignedRecord(entry.signed_manifest);
    status = client_->Run(/*writes=*/true, entry.size_bytes(), [&](RemoteCacheCall& call) {
      return WriteResult(action, record, blobs, call);
    });
  }
  counters_.CountPut(status);
  return status;
}

absl::Status RemoteCacheRecipeStore::WriteResult(const RemoteAction& action, const Bytes& record,
                                                 const std::map<Digest, const Bytes*>& blobs,
                                                 RemoteCacheCall& call) {
  std::map<Digest, const Bytes*> all = blobs;
  const BlobRef record_ref{Sha256(record), record.size()};
  all[record_ref.digest] = &record;
  for (const RemoteBlob* const message : {&action.command, &action.action}) {
    all[message->ref.digest] = &message->bytes;
  }
  std::vector<BlobRef> refs;
  for (const auto& [digest, bytes] : all) refs.push_back({digest, bytes->size()});
  ASSIGN_OR_RETURN(const std::vector<BlobRef> missing, call.FindMissing(refs));
  std::set<Digest> written;
  for (const BlobRef& ref : missing) written.insert(ref.digest);
  for (const BlobRef& ref : refs) {
    if (IsDamaged(ref.digest)) written.insert(ref.digest);
  }
  std::vector<RemoteCacheCall::Upload> uploads;
  for (const Digest& digest : written) {
    uploads.push_back({{digest, all.at(digest)->size()}, all.at(digest)});
  }
  RETURN_IF_ERROR(call.Write(uploads));
  counters_.blobs_written += written.size();
  counters_.blobs_known += refs.size() - written.size();
  std::vector<BlobRef> named;
  for (const auto& [digest, bytes] : blobs) named.push_back({digest, bytes->size()});
  RETURN_IF_ERROR(call.UpdateActionResult(action.name(), ResultOf(record_ref, named)));
  Forgive(action);
  std::lock_guard<std::mutex> lock(mutex_);
  for (const Digest& digest : written) damaged_.erase(digest);
  return absl::OkStatus();
}

absl::StatusOr<AliasRecord> RemoteCacheRecipeStore::GetAlias(const Digest& id) {
  absl::StatusOr<AliasRecord> alias = absl::UnknownError("");
  const absl::Status status =
      client_->Run(/*writes=*/false, /*bytes=*/0, [&](RemoteCacheCall& call) {
        alias = ReadAlias(id, call);
        NoteDamaged(call);
        return alias.status();
      });
  counters_.CountGetAlias(status);
  if (!status.ok()) return status;
  return alias;
}

absl::StatusOr<AliasRecord> RemoteCacheRecipeStore::ReadAlias(const Digest& id,
                                                              RemoteCacheCall& call) {
  ASSIGN_OR_RETURN(const Bytes record, ReadRecord(ActionOf(RemoteKind::kAlias, id), call));
  ASSIGN_OR_RETURN(AliasRecord alias, DecodeStoredAlias(record));
  RETURN_IF_ERROR(HasProgram(alias.alias.content_key, call));
  return alias;
}

absl::Status RemoteCacheRecipeStore::HasProgram(const Digest& key, RemoteCacheCall& call) {
  const RemoteAction action = ActionOf(RemoteKind::kProgram, key);
  absl::Status status;
  if (Avoids(action)) {
    status = NotFound("it was withdrawn");
  } else {
    const absl::StatusOr<reapi::ActionResult> result = call.GetActionResult(action.name());
    status = result.ok() ? RecordIn(*result).status() : result.status();
  }
  if (!absl::IsNotFound(status)) return status;
  return NotFound("the program ", ToHex(key), " that the alias names is not in the remote cache");
}

absl::Status RemoteCacheRecipeStore::PutAlias(const AliasRecord& alias) {
  const RemoteAction action = ActionOf(RemoteKind::kAlias, alias.id());
  const Bytes record = EncodeSignedRecord(alias.signed_record);
  const absl::Status status =
      client_->Run(/*writes=*/true, alias.size_bytes(), [&](RemoteCacheCall& call) -> absl::Status {
        RETURN_IF_ERROR(HasProgram(alias.alias.content_key, call));
        return WriteResult(action, record, {}, call);
      });
  counters_.CountPutAlias(status);
  return status;
}

absl::Status RemoteCacheRecipeStore::DropAlias(const Digest& id) {
  return Withdraw(ActionOf(RemoteKind::kAlias, id));
}

absl::Status RemoteCacheRecipeStore::Quarantine(const Digest& key, const std::string& reason) {
  HPU_LOG(kInfo, "withdrawn from the remote cache key=" << ToHex(key) << " reason=" << reason);
  return Withdraw(ActionOf(RemoteKind::kProgram, key));
}

absl::Status RemoteCacheRecipeStore::Withdraw(const RemoteAction& action) {
  ++withdrawn_;
  Avoid(action);
  if (client_->options().read_only) return absl::OkStatus();
  const absl::Status status =
      client_->Run(/*writes=*/true, /*bytes=*/0, [&](RemoteCacheCall& call) {
        return call.UpdateActionResult(action.name(), WithdrawnResult());
      });
  if (!status.ok()) ++counters_.errors;
  return status;
}

bool RemoteCacheRecipeStore::Avoids(const RemoteAction& action) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = avoided_.find(action.name().digest);
  if (found == avoided_.end()) return false;
  if (steady_clock::now() < found->second) return true;
  avoided_.erase(found);
  return false;
}

void RemoteCacheRecipeStore::Avoid(const RemoteAction& action) {
  const Time now = steady_clock::now();
  std::lock_guard<std::mutex> lock(mutex_);
  if (avoided_.size() >= kMaxAvoided) {
    std::erase_if(avoided_, [now](const auto& item) { return item.second <= now; });
  }
  if (avoided_.size() >= kMaxAvoided) avoided_.erase(avoided_.begin());
  avoided_[action.name().digest] = now + client_->options().avoid_bad_for;
}

void RemoteCacheRecipeStore::Forgive(const RemoteAction& action) {
  std::lock_guard<std::mutex> lock(mutex_);
  avoided_.erase(action.name().digest);
}

void RemoteCacheRecipeStore::NoteDamaged(const RemoteCacheCall& call) {
  if (call.damaged().empty()) return;
  std::lock_guard<std::mutex> lock(mutex_);
  for (const Digest& digest : call.damaged()) {
    if (damaged_.size() >= kMaxDamaged) damaged_.erase(damaged_.begin());
    damaged_.insert(digest);
  }
}

bool RemoteCacheRecipeStore::IsDamaged(const Digest& blob) {
  std::lock_guard<std::mutex> lock(mutex_);
  return damaged_.contains(blob);
}

void RemoteCacheRecipeStore::AddCounters(std::map<std::string, uint64_t>& counters) const {
  counters_.AddTo("remote_cache", counters);
  counters["remote_cache.avoided_reads"] += avoided_reads_;
  counters["remote_cache.withdrawn"] += withdrawn_;
  client_->AddCounters(counters);
}

}  // namespace hpu::store
