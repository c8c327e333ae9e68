// Links between ranks of different hosts, over libfabric.
//
// The library is opened when a communicator first needs it, so that ranks of one host work where it
// is not installed. Every message is a slot with its header, and is received into one of the
// buffers that wait for its sender.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "emulator/collectives/link.h"
#include "emulator/collectives/socket.h"

namespace hpu::emulator {

struct FabricOptions {
  // Whether libfabric chooses among all its providers (HCCL_OVER_OFI); else it is TCP.
  bool any_provider = false;
  SocketAddress interface;  // where this rank listens
};

// This rank's endpoint of one communicator. The links of an endpoint may be used by several
// threads.
class FabricEndpoint {
 public:
  // UNIMPLEMENTED: libfabric is not installed, or has no fitting provider.
  static absl::StatusOr<std::unique_ptr<FabricEndpoint>> Open(int rank,
                                                              const FabricOptions& options);
  virtual ~FabricEndpoint() = default;

  // Returns what peers need to reach this endpoint.
  virtual std::string address() const = 0;
  virtual absl::StatusOr<std::unique_ptr<Link>> Connect(int peer, const std::string& address) = 0;
  // Moves what is on its way. Somebody must call it for anything to move.
  virtual void Progress() = 0;
  // Returns which connection has failed, and why; empty while none has.
  virtual std::string Failure() = 0;
};

}  // namespace hpu::emulator
