// The aliases of RedisRecipeStore.
#include <algorithm>

#include "base/log.h"
#include "recipe_store/redis/redis_recipe_store.h"
#include "recipe_store/stored_entry.h"

namespace hpu::store {
namespace {

using Kind = RedisReply::Kind;

// Returns a command on the ranks of a sorted set that are older than the newest `kept`.
std::vector<std::string> Older(const char* command, const std::string& key, size_t kept) {
  return {command, key, "0", "-" + std::to_string(kept + 1)};
}

// An entry may have so many aliases too many before it is trimmed: one for each server that writes
// at once.
constexpr size_t kMaxSurplus = 1024;

// So many records are read at once.
constexpr size_t kPage = 64;

// Returns the names in an answer and leaves out what has another form.
std::vector<Digest> NamesIn(const RedisReply& reply) {
  std::vector<Digest> names;
  for (const RedisReply& element : reply.elements) {
    if (const auto name = DigestFromHex(element.text())) names.push_back(*name);
  }
  return names;
}

}  // namespace

absl::StatusOr<AliasRecord> RedisRecipeStore::GetAlias(const Digest& id) {
  absl::StatusOr<AliasRecord> alias = ReadAlias(id);
  counters_.CountGetAlias(alias.status());
  return alias;
}

absl::StatusOr<AliasRecord> RedisRecipeStore::ReadAlias(const Digest& id) {
  const std::string alias_key = key(RedisKind::kAlias, id);
  const Deadline deadline = client_->DeadlineFor(0);
  ASSIGN_OR_RETURN(const RedisReply reply,
                   client_->RunOne(Read(alias_key, kMaxStoredRecordBytes), deadline));
  RETURN_IF_ERROR(ExpectKind(reply, Kind::kText, "reading alias " + ToHex(id)));
  if (reply.bytes.empty()) return NotFound("alias ", ToHex(id), " is not in the shared store");
  ASSIGN_OR_RETURN(AliasRecord alias, DecodeStoredAlias(reply.bytes));
  std::vector<RedisCommand> commands = {
      OnKey({"EXISTS", key(RedisKind::kManifest, alias.alias.content_key)})};
  if (client_->options().entry_ttl.count() > 0) commands.push_back(Touch(alias_key, part_ttl()));
  ASSIGN_OR_RETURN(const std::vector<RedisReply> replies, client_->Run(commands, deadline));
  RETURN_IF_ERROR(ExpectKind(replies[0], Kind::kInteger, "asking for an alias's program"));
  if (replies[0].integer != 0) return alias;
  if (absl::Status dropped = DropAliases({id}, deadline); !dropped.ok()) {
    HPU_LOG(kDebug,
            "alias without a program stays id=" << ToHex(id) << " error=" << ToText(dropped));
  }
  return NotFound("alias ", ToHex(id), " names a program that is no longer in the shared store");
}

absl::Status RedisRecipeStore::PutAlias(const AliasRecord& alias) {
  absl::Status status = WriteAlias(alias);
  counters_.CountPutAlias(status);
  return status;
}

absl::Status RedisRecipeStore::WriteAlias(const AliasRecord& alias) {
  const Digest id = alias.id();
  const Digest& program = alias.alias.content_key;
  const Deadline deadline = client_->DeadlineFor(alias.size_bytes());
  ASSIGN_OR_RETURN(const bool there, HasManifest(program, deadline));
  if (!there) {
    return NotFound("the program ", ToHex(program), " that the alias names is not in the shared ",
                    "store");
  }
  const Bytes record = EncodeSignedRecord(alias.signed_record);
  const std::string of_entry = key(RedisKind::kAliasesOf, program);
  const std::string created = std::to_string(alias.alias.created_unix_seconds);
  std::vector<RedisCommand> commands = {
      Write(key(RedisKind::kAlias, id), record, part_ttl()),
      OnKey({"ZADD", of_entry, created, ToHex(id)}), OnKey(Older("ZRANGE", of_entry, kMaxAliases)),
      OnKey(Older("ZREMRANGEBYRANK", of_entry, kMaxAliases)), Touch(of_entry, part_ttl())};
  commands[2].limit = {.bytes = kMaxSurplus * 64, .elements = kMaxSurplus};
  ASSIGN_OR_RETURN(const std::vector<RedisReply> replies, client_->Run(commands, deadline));
  RETURN_IF_ERROR(CheckWritten(replies[0], "writing alias " + ToHex(id)));
  return DropAliases(NamesIn(replies[2]), deadline);
}

absl::Status RedisRecipeStore::DropAlias(const Digest& id) {
  absl::Status status = DropAliases({id}, client_->DeadlineFor(0));
  if (!status.ok()) ++counters_.errors;
  return status;
}

// The ids stay in the `r` of their entries, and DropAliasesOf expects that.
absl::Status RedisRecipeStore::DropAliases(const std::vector<Digest>& ids, Deadline deadline) {
  if (ids.empty()) return absl::OkStatus();
  std::vector<RedisCommand> commands;
  for (const Digest& id : ids) {
    commands.push_back(OnKey({"DEL", key(RedisKind::kAlias, id)}));
  }
  ASSIGN_OR_RETURN(const std::vector<RedisReply> replies, client_->Run(commands, deadline));
  for (const RedisReply& reply : replies) {
    RETURN_IF_ERROR(ExpectKind(reply, Kind::kInteger, "dropping aliases"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Digest>> RedisRecipeStore::AliasIdsOf(const Digest& program,
                                                                 Deadline deadline) {
  RedisCommand command = OnKey({"ZRANGE", key(RedisKind::kAliasesOf, program), "0",
                                std::to_string(kMaxAliases + kMaxSurplus - 1)});
  command.limit = {.bytes = (kMaxAliases + kMaxSurplus) * 64,
                   .elements = kMaxAliases + kMaxSurplus};
  ASSIGN_OR_RETURN(const RedisReply reply, client_->RunOne(command, deadline));
  RETURN_IF_ERROR(ExpectKind(reply, Kind::kArray, "asking for a program's aliases"));
  return NamesIn(reply);
}

absl::Status RedisRecipeStore::DropAliasesOf(const Digest& program, Deadline deadline) {
  ASSIGN_OR_RETURN(const std::vector<Digest> ids, AliasIdsOf(program, deadline));
  std::vector<Digest> dropped;
  for (size_t begin = 0; begin < ids.size(); begin += kPage) {
    const size_t end = std::min(begin + kPage, ids.size());
    std::vector<RedisCommand> commands;
    for (size_t i = begin; i < end; ++i) {
      commands.push_back(Read(key(RedisKind::kAlias, ids[i]), kMaxStoredRecordBytes));
    }
    ASSIGN_OR_RETURN(const std::vector<RedisReply> replies, client_->Run(commands, deadline));
    for (size_t i = begin; i < end; ++i) {
      const RedisReply& reply = replies[i - begin];
      if (reply.kind != Kind::kText || reply.bytes.empty()) continue;
      const absl::StatusOr<AliasRecord> alias = DecodeStoredAlias(reply.bytes);
      // An alias that names another program by now belongs to that program.
      if (alias.ok() && alias->alias.content_key != program) continue;
      dropped.push_back(ids[i]);
    }
  }
  RETURN_IF_ERROR(DropAliases(dropped, deadline));
  return client_->RunOne(OnKey({"DEL", key(RedisKind::kAliasesOf, program)}), deadline).status();
}

absl::StatusOr<bool> RedisRecipeStore::HasManifest(const Digest& program, Deadline deadline) {
  ASSIGN_OR_RETURN(
      const RedisReply reply,
      client_->RunOne(OnKey({"EXISTS", key(RedisKind::kManifest, program)}), deadline));
  RETURN_IF_ERROR(ExpectKind(reply, Kind::kInteger, "asking for programs"));
  return reply.integer != 0;
}

}  // namespace hpu::store
