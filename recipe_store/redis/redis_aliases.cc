// RedisRecipeStore: its aliases.
#include <algorithm>

#include "base/log.h"
#include "recipe_store/redis/redis_recipe_store.h"

namespace hpu::store {
namespace {

using Kind = RedisReply::Kind;

absl::StatusOr<AliasRecord> DecodeStoredAlias(std::span<const uint8_t> bytes) {
  ASSIGN_OR_RETURN(SignedRecord signed_record, DecodeSignedRecord(bytes));
  return MakeAliasRecord(std::move(signed_record));
}

// All but the newest `kept` of a sorted set: the first and last rank of what goes.
std::vector<std::string> Older(const char* command, const std::string& key, size_t kept) {
  return {command, key, "0", "-" + std::to_string(kept + 1)};
}

// What an entry may have too many of before it is trimmed: one for each server that writes at once.
constexpr size_t kMaxSurplus = 1024;

// Names in an answer; those of another form are left out.
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
  Count(alias.status(), alias_hits_, alias_misses_);
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
  if (status.ok()) ++alias_puts_;
  if (!status.ok() && !absl::IsNotFound(status)) ++errors_;
  return status;
}

absl::Status RedisRecipeStore::WriteAlias(const AliasRecord& alias) {
  const Digest id = alias.id();
  const Digest& program = alias.alias.content_key;
  const Deadline deadline = client_->DeadlineFor(alias.size_bytes());
  ASSIGN_OR_RETURN(const std::vector<bool> there, HaveManifests({program}, deadline));
  if (!there[0]) {
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
  if (!status.ok()) ++errors_;
  return status;
}

// They stay in their entries' `r`, which is read with that in mind.
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

absl::StatusOr<std::vector<RedisRecipeStore::Listed>> RedisRecipeStore::AliasRecordsOf(
    const Digest& program, Deadline deadline) {
  RedisCommand command = OnKey({"ZRANGE", key(RedisKind::kAliasesOf, program), "0",
                                std::to_string(kMaxAliases + kMaxSurplus - 1)});
  command.limit = {.bytes = (kMaxAliases + kMaxSurplus) * 64,
                   .elements = kMaxAliases + kMaxSurplus};
  ASSIGN_OR_RETURN(const RedisReply reply, client_->RunOne(command, deadline));
  RETURN_IF_ERROR(ExpectKind(reply, Kind::kArray, "asking for a program's aliases"));
  return ReadRecords(RedisKind::kAlias, NamesIn(reply), deadline);
}

absl::Status RedisRecipeStore::DropAliasesOf(const Digest& program, Deadline deadline) {
  ASSIGN_OR_RETURN(const std::vector<Listed> records, AliasRecordsOf(program, deadline));
  std::vector<Digest> dropped;
  for (const Listed& listed : records) {
    const absl::StatusOr<AliasRecord> alias = DecodeStoredAlias(listed.record);
    // One that names another program by now belongs to that.
    if (alias.ok() && alias->alias.content_key != program) continue;
    dropped.push_back(listed.name);
  }
  RETURN_IF_ERROR(DropAliases(dropped, deadline));
  return client_->RunOne(OnKey({"DEL", key(RedisKind::kAliasesOf, program)}), deadline).status();
}

absl::StatusOr<std::vector<bool>> RedisRecipeStore::HaveManifests(const std::vector<Digest>& keys,
                                                                  Deadline deadline) {
  std::vector<RedisCommand> commands;
  for (const Digest& name : keys) {
    commands.push_back(OnKey({"EXISTS", key(RedisKind::kManifest, name)}));
  }
  ASSIGN_OR_RETURN(const std::vector<RedisReply> replies, client_->Run(commands, deadline));
  std::vector<bool> there;
  for (const RedisReply& reply : replies) {
    RETURN_IF_ERROR(ExpectKind(reply, Kind::kInteger, "asking for programs"));
    there.push_back(reply.integer != 0);
  }
  return there;
}

absl::StatusOr<std::vector<Alias>> RedisRecipeStore::AliasesOf(const Digest& program) {
  absl::StatusOr<std::vector<Alias>> aliases = ReadAliasesOf(program, ListDeadline());
  if (!aliases.ok()) ++errors_;
  return aliases;
}

absl::StatusOr<std::vector<Alias>> RedisRecipeStore::ReadAliasesOf(const Digest& program,
                                                                   Deadline deadline) {
  std::vector<Alias> aliases;
  ASSIGN_OR_RETURN(const std::vector<bool> there, HaveManifests({program}, deadline));
  if (!there[0]) return aliases;
  ASSIGN_OR_RETURN(const std::vector<Listed> records, AliasRecordsOf(program, deadline));
  for (const Listed& listed : records) {
    absl::StatusOr<AliasRecord> alias = DecodeStoredAlias(listed.record);
    // One that names another program by now belongs to that.
    if (!alias.ok() || alias->alias.content_key != program) continue;
    aliases.push_back(std::move(alias->alias));
  }
  OldestFirst(aliases);
  return aliases;
}

}  // namespace hpu::store
