// TLS for the listeners that other hosts connect to.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "compiler_server/service/doors/network.h"
#include "proto/tls_files.h"

namespace hpu::server {

// Certificate, key and client authorities. They are read and checked here, and handed to gRPC at
// every handshake. gRPC itself never reads a file: it would wait at a FIFO, and it does not report
// which file it cannot use. Thread-safe. It must live longer than the servers with its credentials.
class TlsDoor {
 public:
  // Returns the errors of ReadTlsIdentity and ReadAuthorities.
  static absl::StatusOr<std::unique_ptr<TlsDoor>> Make(const NetworkOptions& options);

  // Reads the files again. After an error, which is returned, the old content remains in use.
  absl::Status Reload();

  // Credentials for one address that the server listens on.
  std::shared_ptr<grpc::ServerCredentials> Credentials();

 private:
  // The version that gRPC was last given for one address.
  struct Shown {
    TlsDoor* door;
    uint64_t version = 0;  // guarded by the door's mutex_
  };
  static grpc_ssl_certificate_config_reload_status Fetch(
      void* shown, grpc_ssl_server_certificate_config** config);

  explicit TlsDoor(const NetworkOptions& options) : options_(options) {}

  const NetworkOptions options_;
  std::mutex mutex_;
  // Both are guarded by mutex_.
  TlsIdentity identity_;
  std::string client_authorities_;
  uint64_t version_ = 0;
  std::vector<std::unique_ptr<Shown>> shown_;
};

}  // namespace hpu::server
