#include "compiler_server/service/doors/tls_door.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

namespace hpu::server {
namespace {

// gRPC's C++ interface has no class for credentials that are fetched at every handshake.
class FetchedCredentials final : public grpc::ServerCredentials {
 public:
  explicit FetchedCredentials(grpc_server_credentials* credentials) : credentials_(credentials) {}
  ~FetchedCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* const credentials_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TlsDoor>> TlsDoor::Make(const NetworkOptions& options) {
  std::unique_ptr<TlsDoor> door(new TlsDoor(options));
  RETURN_IF_ERROR(door->Reload());
  return door;
}

absl::Status TlsDoor::Reload() {
  ASSIGN_OR_RETURN(TlsIdentity identity,
                   ReadTlsIdentity(TlsEnd::kServer, "tls-certificate", options_.certificate_file,
                                   "tls-key", options_.key_file));
  std::string authorities;
  if (!options_.client_ca_file.empty()) {
    ASSIGN_OR_RETURN(authorities, ReadAuthorities("tls-client-ca", options_.client_ca_file));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (version_ > 0 && identity == identity_ && authorities == client_authorities_) {
    return absl::OkStatus();
  }
  identity_ = std::move(identity);
  client_authorities_ = std::move(authorities);
  ++version_;
  return absl::OkStatus();
}

std::shared_ptr<grpc::ServerCredentials> TlsDoor::Credentials() {
  const auto asked = options_.client_ca_file.empty()
                         ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                         : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
  std::lock_guard<std::mutex> lock(mutex_);
  shown_.push_back(std::make_unique<Shown>(Shown{this}));
  return std::make_shared<FetchedCredentials>(grpc_ssl_server_credentials_create_with_options(
      grpc_ssl_server_credentials_create_options_using_config_fetcher(asked, &Fetch,
                                                                      shown_.back().get())));
}

grpc_ssl_certificate_config_reload_status TlsDoor::Fetch(
    void* shown, grpc_ssl_server_certificate_config** config) {
  auto* last = static_cast<Shown*>(shown);
  TlsDoor& door = *last->door;
  std::lock_guard<std::mutex> lock(door.mutex_);
  if (last->version == door.version_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  const grpc_ssl_pem_key_cert_pair pair{door.identity_.key.c_str(), door.identity_.chain.c_str()};
  // gRPC ends the process if there are no authorities at all. Where clients are not asked for a
  // certificate, nothing is checked against these.
  const std::string& authorities =
      door.client_authorities_.empty() ? door.identity_.chain : door.client_authorities_;
  *config = grpc_ssl_server_certificate_config_create(authorities.c_str(), &pair, 1);
  last->version = door.version_;
  return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

}  // namespace hpu::server
