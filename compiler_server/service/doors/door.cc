#include "compiler_server/service/doors/door.h"

#include <algorithm>

#include "base/log.h"
#include "compile_client/request_id.h"
#include "proto/grpc_status.h"

namespace hpu::server {

namespace {

// Returns the client's name for its call if it is fit for a log, and otherwise one of ours.
std::string RequestId(const grpc::ServerContext& context) {
  const auto found = context.client_metadata().find(client::kRequestIdHeader);
  if (found != context.client_metadata().end()) {
    const std::string id(found->second.data(), found->second.size());
    if (client::IsRequestId(id)) return id;
  }
  return client::NewRequestId();
}

}  // namespace

grpc::Status Door::Admit(const grpc::ServerContext* context, Roles roles, const char* call,
                         const Enter& enter) {
  const auto begin = std::chrono::steady_clock::now();
  grpc::Status status = AdmitUntimed(context, roles, call, enter);
  times_->AddCall(name_, call, FromGrpc(status).code(), std::chrono::steady_clock::now() - begin);
  return status;
}

grpc::Status Door::AdmitUntimed(const grpc::ServerContext* context, Roles roles, const char* call,
                                const Enter& enter) {
  absl::StatusOr<Caller> caller = callers_->Identify(*context);
  absl::Status refusal = caller.status();
  if (caller.ok() && std::ranges::none_of(roles, [&](Role role) { return caller->Has(role); })) {
    refusal = Error(absl::StatusCode::kPermissionDenied, "caller ", caller->name, " may not call ",
                    call, " here");
  }
  if (refusal.ok()) {
    caller->door = name_;
    caller->request_id = RequestId(*context);
    const LogScope scope("request=" + caller->request_id);
    const CompileService::Activity activity(service_);
    return enter(*caller);
  }
  service_->CountRefusal();
  WriteRefusal(context->peer(), call, caller, refusal);
  return ToGrpc(refusal);
}

void Door::WriteRefusal(const std::string& peer, const char* call,
                        const absl::StatusOr<Caller>& caller, const absl::Status& refusal) {
  const std::optional<uint64_t> left_out = refusals_.Add(
      AddressOf(peer), std::string(refusal.message()), std::chrono::steady_clock::now());
  if (!left_out.has_value()) return;
  const std::string more =
      *left_out == 0 ? "" : " (and " + std::to_string(*left_out) + " more since the last line)";
  HPU_LOG(kWarning, "refused door=" << name_ << " peer=" << peer << " call=" << call
                                    << " reason=" << ToText(refusal) << more);
  audit_->Write({caller.ok() ? caller->name : peer, caller.ok() ? caller->tenant : "", name_,
                 "refuse", refusal.code(), "",
                 std::string(call) + ": " + std::string(refusal.message()) + more});
}

grpc::Status Door::Hello(grpc::ServerContext* context, const wire::HelloRequest* request,
                         wire::HelloReply* reply) {
  return Admit(context, {Role::kRead, Role::kCompile, Role::kAdmin}, "Hello",
               [&](const Caller&) { return service_->Hello(*request, reply); });
}

grpc::Status Door::GetProgram(grpc::ServerContext* context, const wire::GetProgramRequest* request,
                              grpc::ServerWriter<wire::ProgramPart>* writer) {
  return Admit(context, {Role::kRead, Role::kAdmin}, "GetProgram", [&](const Caller& caller) {
    return service_->GetProgram(caller, context, *request, writer);
  });
}

grpc::Status Door::Compile(grpc::ServerContext* context, const wire::CompileRequest* request,
                           grpc::ServerWriter<wire::CompileEvent>* writer) {
  return Admit(context, {Role::kCompile}, "Compile", [&](const Caller& caller) {
    return service_->Compile(caller, context, *request, writer);
  });
}

grpc::Status Door::GetStats(grpc::ServerContext* context, const wire::StatsRequest*,
                            wire::StatsReply* reply) {
  return Admit(context, {Role::kAdmin}, "GetStats",
               [&](const Caller&) { return service_->GetStats(reply); });
}

grpc::Status Door::List(grpc::ServerContext* context, const wire::ListRequest* request,
                        wire::ListReply* reply) {
  return Admit(context, {Role::kRead, Role::kAdmin}, "List",
               [&](const Caller& caller) { return service_->List(caller, *request, reply); });
}

grpc::Status Door::Pin(grpc::ServerContext* context, const wire::PinRequest* request,
                       wire::PinReply*) {
  return Admit(context, {Role::kAdmin}, "Pin", [&](const Caller& caller) {
    return service_->administration().Pin(caller, *request);
  });
}

grpc::Status Door::CollectGarbage(grpc::ServerContext* context, const wire::GarbageRequest* request,
                                  wire::GarbageReply* reply) {
  return Admit(context, {Role::kAdmin}, "CollectGarbage", [&](const Caller& caller) {
    return service_->administration().CollectGarbage(caller, *request, reply);
  });
}

grpc::Status Door::Verify(grpc::ServerContext* context, const wire::VerifyRequest*,
                          grpc::ServerWriter<wire::VerifyEvent>* writer) {
  return Admit(context, {Role::kAdmin}, "Verify",
               [&](const Caller&) { return service_->administration().Verify(writer); });
}

grpc::Status Door::Import(grpc::ServerContext* context,
                          grpc::ServerReader<wire::ImportPart>* reader, wire::ImportReply* reply) {
  return Admit(context, {Role::kAdmin}, "Import", [&](const Caller& caller) {
    return service_->administration().Import(caller, reader, reply);
  });
}

grpc::Status Door::Shutdown(grpc::ServerContext* context, const wire::ShutdownRequest* request,
                            wire::ShutdownReply*) {
  return Admit(context, {Role::kOwner}, "Shutdown", [&](const Caller& caller) {
    audit_->Write(
        {caller.name, caller.tenant, name_, "stop", absl::StatusCode::kOk, "", request->reason()});
    service_->Shutdown(*request);
    return grpc::Status::OK;
  });
}

}  // namespace hpu::server
