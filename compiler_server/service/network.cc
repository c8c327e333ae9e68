#include "compiler_server/service/network.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <algorithm>
#include <fstream>

#include "compiler_server/service/certificates.h"

namespace hpu::server {
namespace {

constexpr unsigned kCertificateRefreshSeconds = 10;

absl::Status CheckReadable(const char* option, const std::string& file) {
  if (std::ifstream(file).good()) return absl::OkStatus();
  return InvalidArgument(option, " ", file, " cannot be read");
}

}  // namespace

absl::Status CheckNetwork(const NetworkOptions& options) {
  if (options.listen.empty()) return absl::OkStatus();
  if (options.callers_file.empty()) {
    return InvalidArgument("--listen needs --callers: a file that says who may call (",
                           "docs/operations.md)");
  }
  using client::Endpoint;
  for (const Endpoint& endpoint : options.listen) {
    if (endpoint.kind == Endpoint::Kind::kUnix) {
      return InvalidArgument("--listen ", client::ToText(endpoint), ": a unix socket is --socket");
    }
  }
  const bool has_tls = std::ranges::any_of(
      options.listen, [](const Endpoint& at) { return at.kind == Endpoint::Kind::kTls; });
  if (!has_tls) return absl::OkStatus();
  if (options.certificate_file.empty() || options.key_file.empty()) {
    return InvalidArgument("--listen tls://... needs --tls-certificate and --tls-key");
  }
  RETURN_IF_ERROR(ExpiryOfChain("tls-certificate", options.certificate_file).status());
  RETURN_IF_ERROR(CheckReadable("--tls-key", options.key_file));
  if (options.client_ca_file.empty()) return absl::OkStatus();
  return CheckReadable("--tls-client-ca", options.client_ca_file);
}

std::shared_ptr<grpc::ServerCredentials> ListenCredentials(const client::Endpoint& endpoint,
                                                           const NetworkOptions& options) {
  if (endpoint.kind == client::Endpoint::Kind::kTcp) return grpc::InsecureServerCredentials();
  namespace tls = grpc::experimental;
  tls::TlsServerCredentialsOptions credentials(
      std::make_shared<tls::FileWatcherCertificateProvider>(
          options.key_file, options.certificate_file, options.client_ca_file,
          kCertificateRefreshSeconds));
  credentials.watch_identity_key_cert_pairs();
  if (!options.client_ca_file.empty()) {
    credentials.watch_root_certs();
    credentials.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return tls::TlsServerCredentials(credentials);
}

}  // namespace hpu::server
