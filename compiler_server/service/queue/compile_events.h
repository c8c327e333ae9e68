// What a Compile call tells its client while it lasts, and where its program came from.
#pragma once

#include <grpcpp/support/sync_stream.h>

#include "compile_service.pb.h"
#include "compiler_server/service/queue/inflight_compilation.h"

namespace hpu::server {

// False: the client has left.
bool SendFailure(const absl::Status& failure, grpc::ServerWriter<wire::CompileEvent>* writer);
bool SendState(const InflightCompilation::View& view,
               grpc::ServerWriter<wire::CompileEvent>* writer);

// `leader`: the request began the flight.
wire::CompileEvent::Origin OriginOf(const CompileResult& result, bool leader);
// For the log.
const char* NameOf(wire::CompileEvent::Origin origin);

}  // namespace hpu::server
