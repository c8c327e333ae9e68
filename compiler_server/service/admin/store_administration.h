// The administrator's work on the programs of a server: pins them, removes what nobody needs,
// verifies them, and imports exported ones. All of it is in the audit log. Thread-safe.
#pragma once

#include "compile_service.grpc.pb.h"
#include "compiler_server/service/admin/audit_log.h"
#include "compiler_server/service/callers/caller.h"
#include "compiler_server/service/programs/alias_book.h"
#include "compiler_server/service/programs/tenant_programs.h"
#include "recipe_store/signing/keyring.h"

namespace hpu::server {

class StoreAdministration {
 public:
  // All of these must live longer.
  StoreAdministration(store::RecipeStore* store, TenantPrograms* programs, AliasBook* aliases,
                      const store::TrustedKeys* trusted, AuditLog* audit)
      : store_(store), programs_(programs), aliases_(aliases), trusted_(trusted), audit_(audit) {}

  // The RPCs of proto/compile_service.proto.
  grpc::Status Pin(const Caller& caller, const wire::PinRequest& request);
  grpc::Status CollectGarbage(const Caller& caller, const wire::GarbageRequest& request,
                              wire::GarbageReply* reply);
  grpc::Status Verify(grpc::ServerWriter<wire::VerifyEvent>* writer);
  grpc::Status Import(const Caller& caller, grpc::ServerReader<wire::ImportPart>* reader,
                      wire::ImportReply* reply);

 private:
  // Returns the amount of what is stored here; `what` is "bytes" or "entries".
  uint64_t Stored(const std::string& what) const;
  absl::Status ImportFrom(const Caller& caller, grpc::ServerReader<wire::ImportPart>* reader,
                          wire::ImportReply* reply);
  absl::Status FileAlias(const Caller& caller, const wire::SignedRecord& message,
                         const Digest& content_key);
  void Record(const Caller& caller, const char* action, const absl::Status& result,
              const std::string& key, const std::string& detail);

  store::RecipeStore* const store_;
  TenantPrograms* const programs_;
  AliasBook* const aliases_;
  const store::TrustedKeys* const trusted_;
  AuditLog* const audit_;
};

}  // namespace hpu::server
