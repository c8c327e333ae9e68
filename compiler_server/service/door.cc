#include "compiler_server/service/door.h"

#include "base/log.h"
#include "proto/grpc_status.h"

namespace hpu::server {

grpc::Status Door::Admit(const grpc::ServerContext* context, Role role, const char* call,
                         const Enter& enter) {
  const auto begin = std::chrono::steady_clock::now();
  grpc::Status status = AdmitUntimed(context, role, call, enter);
  times_->Add(name_, call, FromGrpc(status).code(), std::chrono::steady_clock::now() - begin);
  return status;
}

grpc::Status Door::AdmitUntimed(const grpc::ServerContext* context, Role role, const char* call,
                                const Enter& enter) {
  const absl::StatusOr<Caller> caller = callers_->Identify(*context);
  absl::Status refusal = caller.status();
  if (caller.ok() && !caller->Has(role)) {
    refusal = Error(absl::StatusCode::kPermissionDenied, "caller ", caller->name, " may not call ",
                    call, " here");
  }
  if (refusal.ok()) return enter(*caller);
  service_->CountRefusal();
  HPU_LOG(kWarning, "refused door=" << name_ << " peer=" << context->peer() << " call=" << call
                                    << " reason=" << ToText(refusal));
  return ToGrpc(refusal);
}

grpc::Status Door::Hello(grpc::ServerContext* context, const wire::HelloRequest* request,
                         wire::HelloReply* reply) {
  return Admit(context, Role::kRead, "Hello",
               [&](const Caller&) { return service_->Hello(*request, reply); });
}

grpc::Status Door::GetProgram(grpc::ServerContext* context, const wire::GetProgramRequest* request,
                              grpc::ServerWriter<wire::ProgramPart>* writer) {
  return Admit(context, Role::kRead, "GetProgram", [&](const Caller& caller) {
    return service_->GetProgram(caller, context, *request, writer);
  });
}

grpc::Status Door::Compile(grpc::ServerContext* context, const wire::CompileRequest* request,
                           grpc::ServerWriter<wire::CompileEvent>* writer) {
  return Admit(context, Role::kCompile, "Compile", [&](const Caller& caller) {
    return service_->Compile(caller, context, *request, writer);
  });
}

grpc::Status Door::GetStats(grpc::ServerContext* context, const wire::StatsRequest*,
                            wire::StatsReply* reply) {
  return Admit(context, Role::kAdmin, "GetStats",
               [&](const Caller&) { return service_->GetStats(reply); });
}

grpc::Status Door::List(grpc::ServerContext* context, const wire::ListRequest* request,
                        grpc::ServerWriter<wire::ListEntry>* writer) {
  return Admit(context, Role::kRead, "List",
               [&](const Caller& caller) { return service_->List(caller, *request, writer); });
}

grpc::Status Door::Shutdown(grpc::ServerContext* context, const wire::ShutdownRequest* request,
                            wire::ShutdownReply*) {
  return Admit(context, Role::kOwner, "Shutdown", [&](const Caller&) {
    service_->Shutdown(*request);
    return grpc::Status::OK;
  });
}

}  // namespace hpu::server
