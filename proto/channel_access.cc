#include "proto/channel_access.h"

#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <cctype>

#include "base/regular_file.h"

namespace hpu {
namespace {

constexpr size_t kMaxTokenBytes = 64 << 10;

}  // namespace

absl::StatusOr<TlsAccess> ReadTlsAccess(const Access& access) {
  TlsAccess read;
  if (!access.ca_file.empty()) {
    ASSIGN_OR_RETURN(read.authorities, ReadAuthorities(access.options + "-ca", access.ca_file));
  }
  if (!access.certificate_file.empty()) {
    ASSIGN_OR_RETURN(
        read.identity,
        ReadTlsIdentity(TlsEnd::kClient, access.options + "-certificate", access.certificate_file,
                        access.options + "-key", access.key_file));
  }
  return read;
}

std::shared_ptr<grpc::ChannelCredentials> TlsCredentials(const TlsAccess& access) {
  return grpc::SslCredentials({access.authorities, access.identity.key, access.identity.chain});
}

absl::StatusOr<std::string> ReadBearer(const std::string& token_file) {
  ASSIGN_OR_RETURN(const std::string text, ReadRegularFile(token_file, kMaxTokenBytes));
  std::string token = text.substr(0, text.find('\n'));
  // Editors may leave white space at the end.
  while (!token.empty() && std::isspace(static_cast<unsigned char>(token.back())) != 0) {
    token.pop_back();
  }
  if (token.empty()) return InvalidArgument("no token in the first line of ", token_file);
  // gRPC ends the process if a header has other characters.
  if (!std::ranges::all_of(token, [](char c) { return c >= ' ' && c <= '~'; })) {
    return InvalidArgument("the token in ", token_file, " has characters that no header takes");
  }
  return "Bearer " + token;
}

absl::Status CheckAccess(const Access& access) {
  RETURN_IF_ERROR(ReadTlsAccess(access).status());
  for (const auto& [file, name] :
       {std::pair(access.key_file, "-key"), std::pair(access.token_file, "-token")}) {
    if (file.empty()) continue;
    const absl::StatusOr<RegularFile> opened = RegularFile::Open(file);
    absl::Status status = opened.status();
    if (status.ok()) status = opened->CheckOwner(RegularFile::Use::kSecret);
    RETURN_IF_ERROR_AT(status, "--" + access.options + name);
  }
  if (access.token_file.empty()) return absl::OkStatus();
  RETURN_IF_ERROR_AT(ReadBearer(access.token_file).status(), "--" + access.options + "-token");
  return absl::OkStatus();
}

}  // namespace hpu
