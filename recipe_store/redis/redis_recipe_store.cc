#include "recipe_store/redis/redis_recipe_store.h"

#include <algorithm>
#include <numeric>

#include "base/log.h"
#include "recipe_store/stored_entry.h"

namespace hpu::store {
namespace {

using Kind = RedisReply::Kind;

// Blobs live so much longer than a manifest that was touched with them.
constexpr std::chrono::seconds kPartMargin{60};

// Returns the end of the pipeline that begins with refs[begin].
size_t PipelineEnd(const std::vector<BlobRef>& refs, size_t begin) {
  uint64_t bytes = 0;
  size_t end = begin;
  while (end < refs.size() && end - begin < kMaxPipeline) {
    bytes += refs[end].size_bytes;
    if (bytes > kMaxPipelineBytes && end > begin) break;
    ++end;
  }
  return end;
}

}  // namespace

std::chrono::milliseconds RedisRecipeStore::part_ttl() const {
  const std::chrono::milliseconds ttl = client_->options().entry_ttl;
  return ttl.count() == 0 ? ttl : ttl + kPartMargin;
}

absl::StatusOr<Entry> RedisRecipeStore::Find(const Digest& name, Purpose purpose) {
  absl::StatusOr<Entry> entry = ReadEntry(name, purpose);
  counters_.CountFind(entry.status());
  return entry;
}

absl::Status RedisRecipeStore::Put(const Entry& entry) {
  absl::Status status = WriteEntry(entry);
  counters_.CountPut(status);
  return status;
}

absl::StatusOr<Entry> RedisRecipeStore::ReadEntry(const Digest& name, Purpose purpose) {
  const std::string manifest_key = key(RedisKind::kManifest, name);
  const Deadline deadline = client_->DeadlineFor(0);
  ASSIGN_OR_RETURN(const RedisReply reply,
                   client_->RunOne(Read(manifest_key, kMaxStoredRecordBytes), deadline));
  RETURN_IF_ERROR(ExpectKind(reply, Kind::kText, "reading manifest " + ToHex(name)));
  if (reply.bytes.empty()) return NotFound("key ", ToHex(name), " is not in the shared store");
  return MakeStoredEntry(
      name, purpose, reply.bytes, client_->options().max_entry_bytes, "the shared store",
      [&](const Manifest& manifest, const std::vector<BlobRef>& refs, uint64_t bytes) {
        return ReadBlobs(manifest, refs, deadline + client_->TimeFor(bytes));
      });
}

absl::StatusOr<std::map<Digest, Blob>> RedisRecipeStore::ReadBlobs(const Manifest& manifest,
                                                                   const std::vector<BlobRef>& refs,
                                                                   Deadline deadline) {
  std::map<Digest, Blob> found;
  for (size_t begin = 0; begin < refs.size();) {
    const size_t end = PipelineEnd(refs, begin);
    std::vector<RedisCommand> commands;
    for (size_t i = begin; i < end; ++i) {
      commands.push_back(Read(key(RedisKind::kBlob, refs[i].digest), refs[i].size_bytes));
    }
    // An entry that is used lives on as a whole.
    if (client_->options().entry_ttl.count() > 0) {
      for (size_t i = begin; i < end; ++i) {
        commands.push_back(Touch(key(RedisKind::kBlob, refs[i].digest), part_ttl()));
      }
      commands.push_back(
          Touch(key(RedisKind::kManifest, manifest.key()), client_->options().entry_ttl));
    }
    ASSIGN_OR_RETURN(std::vector<RedisReply> replies, client_->Run(commands, deadline));
    for (size_t i = begin; i < end; ++i) {
      RedisReply& reply = replies[i - begin];
      RETURN_IF_ERROR(ExpectKind(reply, Kind::kText, "reading blob " + ToHex(refs[i].digest)));
      if (reply.bytes.size() != refs[i].size_bytes) {
        ++counters_.incomplete;
        return NotFound("key ", ToHex(manifest.key()), ": the shared store has its manifest, but ",
                        reply.bytes.size(), " of ", refs[i].size_bytes, " bytes of blob ",
                        ToHex(refs[i].digest));
      }
      found[refs[i].digest] = std::make_shared<const Bytes>(std::move(reply.bytes));
    }
    begin = end;
  }
  return found;
}

absl::Status RedisRecipeStore::WriteEntry(const Entry& entry) {
  const uint64_t limit = client_->options().max_entry_bytes;
  if (entry.size_bytes() > limit) {
    return Error(absl::StatusCode::kResourceExhausted, "the entry has ", entry.size_bytes(),
                 " bytes, the shared store is limited to ", limit, " for one");
  }
  const Digest name = entry.manifest.key();
  const Deadline deadline = client_->DeadlineFor(entry.size_bytes());
  RETURN_IF_ERROR(WriteBlobs(entry, BlobRefs(entry.manifest), deadline));
  const Bytes record = EncodeSignedRecord(entry.signed_manifest);
  const std::string index = key(RedisKind::kManifests);
  const RedisCommand commands[] = {
      Write(key(RedisKind::kManifest, name), record, client_->options().entry_ttl),
      OnKey({"ZADD", index, std::to_string(entry.manifest.created_unix_seconds), ToHex(name)}),
      OnKey({"ZREMRANGEBYRANK", index, "0", "-" + std::to_string(kMaxListed + 1)})};
  ASSIGN_OR_RETURN(const std::vector<RedisReply> replies, client_->Run(commands, deadline));
  RETURN_IF_ERROR(CheckWritten(replies[0], "writing manifest " + ToHex(name)));
  // The entry is there and will be found; only the index lacks it.
  if (absl::Status listed = ExpectKind(replies[1], Kind::kInteger, "listing"); !listed.ok()) {
    HPU_LOG(kDebug, "entry not listed key=" << ToHex(name) << " error=" << ToText(listed));
  }
  return absl::OkStatus();
}

// Returns the indices in `refs` of the blobs that must be written. A blob that is there in another
// size must be written as well.
absl::StatusOr<std::vector<size_t>> RedisRecipeStore::MissingBlobs(const std::vector<BlobRef>& refs,
                                                                   Deadline deadline) {
  std::vector<size_t> missing;
  for (size_t begin = 0; begin < refs.size(); begin += kMaxPipeline) {
    const size_t end = std::min(begin + kMaxPipeline, refs.size());
    std::vector<RedisCommand> commands;
    for (size_t i = begin; i < end; ++i) {
      const std::string blob = key(RedisKind::kBlob, refs[i].digest);
      commands.push_back(OnKey({"STRLEN", blob}));
      // The blob must live on before the manifest counts on it.
      commands.push_back(Touch(blob, part_ttl()));
    }
    ASSIGN_OR_RETURN(const std::vector<RedisReply> replies, client_->Run(commands, deadline));
    for (size_t i = begin; i < end; ++i) {
      const RedisReply& size = replies[2 * (i - begin)];
      const bool known = size.kind == Kind::kInteger && size.integer >= 0 &&
                         static_cast<uint64_t>(size.integer) == refs[i].size_bytes;
      if (!known) missing.push_back(i);
    }
  }
  return missing;
}

absl::Status RedisRecipeStore::WriteBlobs(const Entry& entry, const std::vector<BlobRef>& refs,
                                          Deadline deadline) {
  std::map<Digest, const Bytes*> bytes;
  for (size_t i = 0; i < refs.size(); ++i) bytes[refs[i].digest] = entry.blobs[i].get();
  const std::vector<BlobRef> distinct = DistinctBlobs(refs);
  ASSIGN_OR_RETURN(std::vector<size_t> missing, MissingBlobs(distinct, deadline));
  // An entry that is put again was of no use as it was: a blob of the right size may be damaged.
  const std::string manifest = key(RedisKind::kManifest, entry.manifest.key());
  ASSIGN_OR_RETURN(const RedisReply known, client_->RunOne(OnKey({"EXISTS", manifest}), deadline));
  if (known.kind == Kind::kInteger && known.integer > 0) {
    missing.resize(distinct.size());
    std::iota(missing.begin(), missing.end(), size_t{0});
  }
  std::vector<BlobRef> written;
  for (const size_t i : missing) written.push_back(distinct[i]);
  for (size_t begin = 0; begin < written.size();) {
    const size_t end = PipelineEnd(written, begin);
    std::vector<RedisCommand> commands;
    for (size_t i = begin; i < end; ++i) {
      const Digest& digest = written[i].digest;
      commands.push_back(Write(key(RedisKind::kBlob, digest), *bytes.at(digest), part_ttl()));
    }
    ASSIGN_OR_RETURN(const std::vector<RedisReply> replies, client_->Run(commands, deadline));
    for (size_t i = begin; i < end; ++i) {
      RETURN_IF_ERROR(CheckWritten(replies[i - begin], "writing blob " + ToHex(written[i].digest)));
    }
    begin = end;
  }
  counters_.blobs_written += written.size();
  counters_.blobs_known += distinct.size() - written.size();
  return absl::OkStatus();
}

void RedisRecipeStore::AddCounters(std::map<std::string, uint64_t>& counters) const {
  counters_.AddTo("redis", counters);
  counters["redis.quarantined"] += quarantined_;
  client_->AddCounters(counters);
}

}  // namespace hpu::store
