// gRPC channels to compile servers. Over a unix socket we connect ourselves: no name resolver, no
// proxy settings, no back-off, and the peer's user is checked before a byte is sent. Over TLS the
// server shows a certificate.
#pragma once

#include <grpcpp/channel.h>
#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>

#include "base/status.h"
#include "compile_client/endpoint.h"
#include "compile_service.grpc.pb.h"
#include "proto/channel_access.h"

namespace hpu::client {

// `status` as trouble with the server itself: none, none that answers in time, or a fork. That is a
// type, not a code: the server's and the compiler's answers may have any code, and only what bears
// this mark makes a client step down the ladder.
absl::Status ServerUnavailable(absl::Status status);
bool IsServerUnavailable(const absl::Status& status);

using hpu::Access;

struct Connection {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<wire::CompileService::Stub> stub;
};

// Connected when it returns; within `timeout`, and sooner if it is refused. PERMISSION_DENIED:
// another user listens. All others are ServerUnavailable: UNAVAILABLE, nobody listens, or no
// certificate that is good; FAILED_PRECONDITION, this process was forked from one that had used
// gRPC, whose threads do not exist here (AfterFork).
absl::StatusOr<std::shared_ptr<Connection>> Connect(const Endpoint& endpoint, const Access& access,
                                                    std::chrono::milliseconds timeout);
// Of a unix socket, which connects at once or not at all.
absl::StatusOr<std::shared_ptr<Connection>> ConnectUnix(const std::string& socket_path);

// True in a process forked after its parent had connected: gRPC must not be touched here, not even
// to destroy its objects.
bool AfterFork();

}  // namespace hpu::client
