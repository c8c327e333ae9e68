#include "proto/channel_access.h"

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <algorithm>
#include <cctype>
#include <fstream>

namespace hpu {
namespace {

constexpr unsigned kCertificateRefreshSeconds = 10;

}  // namespace

std::shared_ptr<grpc::ChannelCredentials> TlsCredentials(const Access& access) {
  namespace tls = grpc::experimental;
  tls::TlsChannelCredentialsOptions options;
  const bool has_certificate = !access.certificate_file.empty();
  if (has_certificate || !access.ca_file.empty()) {
    options.set_certificate_provider(std::make_shared<tls::FileWatcherCertificateProvider>(
        access.key_file, access.certificate_file, access.ca_file, kCertificateRefreshSeconds));
  }
  if (!access.ca_file.empty()) options.watch_root_certs();
  if (has_certificate) options.watch_identity_key_cert_pairs();
  return tls::TlsCredentials(options);
}

absl::StatusOr<std::string> ReadBearer(const std::string& token_file) {
  std::ifstream file(token_file);
  std::string token;
  std::getline(file, token);
  // What editors leave at the end.
  while (!token.empty() && std::isspace(static_cast<unsigned char>(token.back())) != 0) {
    token.pop_back();
  }
  if (token.empty()) return InvalidArgument("no token in the first line of ", token_file);
  // gRPC ends the process over a header with other characters.
  if (!std::ranges::all_of(token, [](char c) { return c >= ' ' && c <= '~'; })) {
    return InvalidArgument("the token in ", token_file, " has characters that no header takes");
  }
  return "Bearer " + token;
}

}  // namespace hpu
