#include "compiler_server/service/admin/store_administration.h"

#include "base/clock.h"
#include "compile_client/program_assembler.h"
#include "compiler_server/service/queue/compile_request.h"
#include "proto/grpc_status.h"

namespace hpu::server {
namespace {

// A larger import is refused before its bytes are read.
constexpr uint64_t kMaxImportBytes = store::kMaxBlobBytes;
// The number of programs that are listed at once.
constexpr size_t kPage = 1000;

store::SignedRecord ToRecord(const wire::SignedRecord& message) {
  return {store::ToBytes(message.record()), store::ToBytes(message.signature()),
          store::ToBytes(message.public_key())};
}

absl::StatusOr<Digest> KeyOfHeader(const wire::ImportPart& part) {
  if (!part.has_program() || !part.program().has_header()) {
    return InvalidArgument("an import begins with the header of a program");
  }
  ASSIGN_OR_RETURN(
      const store::Manifest manifest,
      store::DecodeManifest(store::ToBytes(part.program().header().manifest().record())));
  uint64_t bytes = 0;
  for (const store::BlobRef& ref : store::BlobRefs(manifest)) bytes += ref.size_bytes;
  if (bytes > kMaxImportBytes) {
    return Error(absl::StatusCode::kResourceExhausted, "the program has ", bytes,
                 " bytes, an import at most ", kMaxImportBytes);
  }
  return manifest.key();
}

// On the wire UNAVAILABLE means a lost server, and a store that cannot be written is not one.
absl::Status OfStore(const absl::Status& status) {
  if (!absl::IsUnavailable(status)) return status;
  return Error(absl::StatusCode::kResourceExhausted, status.message());
}

}  // namespace

void StoreAdministration::Record(const Caller& caller, const char* action,
                                 const absl::Status& result, const std::string& key,
                                 const std::string& detail) {
  audit_->Write({caller.name, caller.tenant, caller.door, action, result.code(), key,
                 result.ok() ? detail : std::string(result.message())});
}

grpc::Status StoreAdministration::Pin(const Caller& caller, const wire::PinRequest& request) {
  const absl::StatusOr<Digest> key = ToKey(request.content_key(), "content key");
  if (!key.ok()) return ToGrpc(key.status());
  const absl::Status done = OfStore(store_->Pin(*key, request.pinned()));
  Record(caller, request.pinned() ? "pin" : "unpin", done, ToHex(*key), "");
  return ToGrpc(done);
}

uint64_t StoreAdministration::Stored(const std::string& what) const {
  std::map<std::string, uint64_t> counters;
  store_->AddCounters(counters);
  const auto found = counters.find("rocksdb." + what);
  return found != counters.end() ? found->second : counters["memory." + what];
}

grpc::Status StoreAdministration::CollectGarbage(const Caller& caller,
                                                 const wire::GarbageRequest& request,
                                                 wire::GarbageReply* reply) {
  const uint64_t now = MicrosOfEpoch();
  const uint64_t unused_micros = request.unused_seconds() * 1'000'000;
  const uint64_t since = request.unused_seconds() == 0 ||
                                 unused_micros / 1'000'000 != request.unused_seconds() ||
                                 unused_micros > now
                             ? 0
                             : now - unused_micros;
  reply->set_bytes_before(Stored("bytes"));
  const absl::StatusOr<std::vector<Digest>> removed =
      store_->CollectGarbage(request.max_bytes(), since);
  reply->set_bytes_after(Stored("bytes"));
  if (removed.ok()) {
    reply->set_removed(removed->size());
    for (const Digest& key : *removed) {
      Record(caller, "collect-garbage", absl::OkStatus(), ToHex(key), "");
    }
  } else {
    Record(caller, "collect-garbage", removed.status(), "", "");
  }
  return ToGrpc(OfStore(removed.status()));
}

grpc::Status StoreAdministration::Verify(grpc::ServerWriter<wire::VerifyEvent>* writer) {
  wire::VerifyEvent event;
  const uint64_t stored = Stored("entries");
  std::optional<store::ListPosition> last;
  while (true) {
    const absl::StatusOr<std::vector<store::ListPosition>> page = store_->Positions(kPage, last);
    if (!page.ok()) return ToGrpc(page.status());
    for (const store::ListPosition& position : *page) {
      last = position;
      const absl::Status verdict = store_->Verify(position.key);
      event.set_done(event.done() + 1);
      event.set_total(std::max(stored, event.done()));
      event.set_content_key(store::ToString(position.key));
      // A program that left the store in the meantime is no problem.
      event.set_problem(verdict.ok() || absl::IsNotFound(verdict) ? "" : ToText(verdict));
      if (!writer->Write(event)) return grpc::Status::CANCELLED;
    }
    if (page->size() < kPage) break;
  }
  event.set_total(event.done());
  event.clear_content_key();
  event.clear_problem();
  writer->Write(event);
  return grpc::Status::OK;
}

grpc::Status StoreAdministration::Import(const Caller& caller,
                                         grpc::ServerReader<wire::ImportPart>* reader,
                                         wire::ImportReply* reply) {
  const absl::Status done = ImportFrom(caller, reader, reply);
  const std::string& key = reply->content_key();  // empty unless the program is filed
  Record(caller, "import", done, ToHex({reinterpret_cast<const uint8_t*>(key.data()), key.size()}),
         std::to_string(reply->aliases()) + " aliases");
  return ToGrpc(done);
}

absl::Status StoreAdministration::ImportFrom(const Caller& caller,
                                             grpc::ServerReader<wire::ImportPart>* reader,
                                             wire::ImportReply* reply) {
  wire::ImportPart part;
  if (!reader->Read(&part)) return InvalidArgument("an empty import");
  ASSIGN_OR_RETURN(const Digest key, KeyOfHeader(part));
  client::ProgramAssembler assembler(client::ByContentKey{key}, trusted_->keyring());
  do {
    RETURN_IF_ERROR(assembler.Add(part.program()));
  } while (reader->Read(&part) && part.has_program());
  ASSIGN_OR_RETURN(const store::Entry entry, assembler.Finish());
  RETURN_IF_ERROR(OfStore(programs_->Put(caller.tenant, entry)));
  reply->set_content_key(store::ToString(key));
  for (; part.has_alias(); part.Clear(), reader->Read(&part)) {
    RETURN_IF_ERROR(FileAlias(caller, part.alias(), key));
    reply->set_aliases(reply->aliases() + 1);
  }
  return absl::OkStatus();
}

absl::Status StoreAdministration::FileAlias(const Caller& caller, const wire::SignedRecord& message,
                                            const Digest& content_key) {
  store::SignedRecord record = ToRecord(message);
  RETURN_IF_ERROR(trusted_->keyring()->Verify(store::RecordKind::kAlias, record));
  ASSIGN_OR_RETURN(const store::AliasRecord signed_alias,
                   store::MakeAliasRecord(std::move(record)));
  const store::Alias& alias = signed_alias.alias;
  if (alias.content_key != content_key) {
    return InvalidArgument("the alias ", ToHex(alias.front_end_key).substr(0, 16),
                           " is of another program");
  }
  // Here the alias belongs to the tenant that this server assigns to the caller.
  return aliases_
      ->File(caller.tenant, {alias.front_end_key, alias.factors, alias.label}, content_key)
      .status();
}

}  // namespace hpu::server
