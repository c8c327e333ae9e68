// gRPC channels to compile servers. Over a unix socket this code connects by itself: without name
// resolver, proxy settings and back-off, and the peer's user is checked before a byte is sent. Over
// TLS the server shows a certificate.
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

// Marks `status` as trouble with the server itself: there is none, none answers in time, or the
// process was forked. The mark is a type and not a code, because the answers of the server and of
// the compiler may have any code, and only a marked status makes a client go on to the next step of
// the fallback chain.
absl::Status ServerUnavailable(absl::Status status);
bool IsServerUnavailable(const absl::Status& status);

using hpu::Access;

struct Connection {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<wire::CompileService::Stub> stub;
};

// Returns a connected channel, within `timeout`, and sooner if the connection is refused. Returns
// PERMISSION_DENIED if another user listens. All other errors are ServerUnavailable: UNAVAILABLE if
// nobody listens or there is no valid certificate, and FAILED_PRECONDITION if this process was
// forked from one that had used gRPC, whose threads do not exist here (AfterFork).
absl::StatusOr<std::shared_ptr<Connection>> Connect(const Endpoint& endpoint, const Access& access,
                                                    std::chrono::milliseconds timeout);
// For a unix socket, which connects at once or not at all.
absl::StatusOr<std::shared_ptr<Connection>> ConnectUnix(const std::string& socket_path);

// True in a process that was forked after its parent had connected. gRPC must not be used here, not
// even to destroy its objects.
bool AfterFork();

}  // namespace hpu::client
