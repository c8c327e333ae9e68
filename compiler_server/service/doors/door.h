// The gRPC side of one listener: finds out who calls, checks whether the caller may, and passes the
// request on. One service stands behind several of these: the one for the unix socket and the one
// for the network.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>

#include "compile_service.grpc.pb.h"
#include "compiler_server/service/admin/audit_log.h"
#include "compiler_server/service/admin/metrics_page.h"
#include "compiler_server/service/callers/caller.h"
#include "compiler_server/service/doors/refusal_log.h"
#include "compiler_server/service/rpc/compile_service.h"

namespace hpu::server {

class Door final : public wire::CompileService::Service {
 public:
  // All of these must live longer. `name` appears in the log and in the metrics.
  Door(std::string name, const Callers* callers, CompileService* service, ServerTimes* times,
       AuditLog* audit)
      : name_(std::move(name)),
        callers_(callers),
        service_(service),
        times_(times),
        audit_(audit) {}

  grpc::Status Hello(grpc::ServerContext* context, const wire::HelloRequest* request,
                     wire::HelloReply* reply) override;
  grpc::Status GetProgram(grpc::ServerContext* context, const wire::GetProgramRequest* request,
                          grpc::ServerWriter<wire::ProgramPart>* writer) override;
  grpc::Status Compile(grpc::ServerContext* context, const wire::CompileRequest* request,
                       grpc::ServerWriter<wire::CompileEvent>* writer) override;
  grpc::Status GetStats(grpc::ServerContext* context, const wire::StatsRequest* request,
                        wire::StatsReply* reply) override;
  grpc::Status List(grpc::ServerContext* context, const wire::ListRequest* request,
                    wire::ListReply* reply) override;
  grpc::Status Pin(grpc::ServerContext* context, const wire::PinRequest* request,
                   wire::PinReply* reply) override;
  grpc::Status CollectGarbage(grpc::ServerContext* context, const wire::GarbageRequest* request,
                              wire::GarbageReply* reply) override;
  grpc::Status Verify(grpc::ServerContext* context, const wire::VerifyRequest* request,
                      grpc::ServerWriter<wire::VerifyEvent>* writer) override;
  grpc::Status Import(grpc::ServerContext* context, grpc::ServerReader<wire::ImportPart>* reader,
                      wire::ImportReply* reply) override;
  grpc::Status Shutdown(grpc::ServerContext* context, const wire::ShutdownRequest* request,
                        wire::ShutdownReply* reply) override;

 private:
  using Enter = std::function<grpc::Status(const Caller& caller)>;

  // A caller needs one of these roles.
  using Roles = std::initializer_list<Role>;

  // Returns UNAUTHENTICATED or PERMISSION_DENIED, or the result of `enter`.
  grpc::Status Admit(const grpc::ServerContext* context, Roles roles, const char* call,
                     const Enter& enter);
  grpc::Status AdmitUntimed(const grpc::ServerContext* context, Roles roles, const char* call,
                            const Enter& enter);

  // Writes the refusal to the logs if it is time for a line.
  void WriteRefusal(const std::string& peer, const char* call, const absl::StatusOr<Caller>& caller,
                    const absl::Status& refusal);

  const std::string name_;
  const Callers* const callers_;
  CompileService* const service_;
  ServerTimes* const times_;
  AuditLog* const audit_;
  RefusalLog refusals_;
};

}  // namespace hpu::server
