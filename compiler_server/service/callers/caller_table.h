// Callers over the network, from a file that the operator writes:
//
//   # NAME    TENANT   ROLES          CREDENTIAL              [LAST DAY, UTC]
//   trainer   team-a   read,compile   sha256:9f86d0818...     2027-01-31
//   node7     team-a   read           certificate
//
// "sha256:" precedes the hexadecimal digest of the caller's token; the server never stores the
// token itself. "certificate" means a client certificate with the common name NAME, which TLS
// checks against the client authorities. A caller who shows a token is known by it alone.
#pragma once

#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "compiler_server/service/callers/caller.h"

namespace hpu::server {

struct CallerRow {
  Caller caller;
  Digest token_digest{};
  bool by_certificate = false;
  // no longer valid from this time on.
  int64_t end_unix_seconds = std::numeric_limits<int64_t>::max();
};

inline constexpr size_t kMaxCallers = 10'000;

// Returns INVALID_ARGUMENT with line and field.
absl::StatusOr<std::vector<CallerRow>> ParseCallers(const std::string& text);

class CallerTable final : public Callers {
 public:
  // Returns INVALID_ARGUMENT as ParseCallers does and if the file names nobody, and the errors of
  // RegularFile and its CheckOwner.
  static absl::StatusOr<std::unique_ptr<CallerTable>> Load(const std::string& path);

  absl::StatusOr<Caller> Identify(const grpc::ServerContext& context) const override;

  // The caller with this token; UNAUTHENTICATED if there is none.
  absl::StatusOr<Caller> OfToken(const std::string& token) const;

  // Reads the file again. After an error, which is returned, the callers stay the same. Returns
  // true if the text has changed.
  absl::StatusOr<bool> Reload();

 private:
  explicit CallerTable(std::string path) : path_(std::move(path)) {}
  absl::StatusOr<Caller> OfCertificate(const std::vector<std::string>& names) const;

  const std::string path_;
  mutable std::mutex mutex_;
  std::optional<std::string> text_;  // empty before the first read; guarded by mutex_, as all below
  std::vector<CallerRow> rows_;
};

}  // namespace hpu::server
