// The messages to the client during a Compile call, and the origin of its program.
#pragma once

#include <grpcpp/support/sync_stream.h>

#include "compile_service.pb.h"
#include "compiler_server/service/queue/inflight_compilation.h"

namespace hpu::server {

// Returns false if the client has left.
bool SendFailure(const absl::Status& failure, grpc::ServerWriter<wire::CompileEvent>* writer);
bool SendState(const InflightCompilation::View& view,
               grpc::ServerWriter<wire::CompileEvent>* writer);

// `leader` is true if the request began the compilation.
wire::CompileEvent::Origin OriginOf(const CompileResult& result, bool leader);
// The name is for the log.
const char* NameOf(wire::CompileEvent::Origin origin);

}  // namespace hpu::server
