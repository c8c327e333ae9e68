// A gRPC channel over a unix socket that we connect ourselves: no name resolver, no proxy settings,
// no back-off, and the peer's user is checked before a byte is sent.
#pragma once

#include <grpcpp/channel.h>
#include <sys/types.h>

#include <memory>
#include <string>

#include "base/status.h"
#include "compile_service.grpc.pb.h"

namespace hpu::client {

struct Connection {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<wire::CompileService::Stub> stub;
  pid_t server_pid = 0;
};

// UNAVAILABLE: nobody listens. PERMISSION_DENIED: another user does. FAILED_PRECONDITION: this
// process was forked from one that had used gRPC, whose threads do not exist here (AfterFork).
absl::StatusOr<std::shared_ptr<Connection>> Connect(const std::string& socket_path);

// True in a process forked after its parent had connected: gRPC must not be touched here, not even
// to destroy its objects.
bool AfterFork();

}  // namespace hpu::client
