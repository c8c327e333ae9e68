#include "compiler_server/service/doors/certificates.h"

#include "proto/tls_files.h"

namespace hpu::server {

void Certificates::Watch(const std::string& option, const std::string& file) {
  if (file.empty()) return;
  std::lock_guard<std::mutex> lock(mutex_);
  files_[option] = std::make_unique<CachedFile<int64_t>>(
      file, [option, file] { return ExpiryOfChain(option, file); });
}

absl::Status Certificates::Reload() {
  std::lock_guard<std::mutex> lock(mutex_);
  absl::Status status;
  for (const auto& [option, file] : files_) {
    const absl::StatusOr<std::shared_ptr<const int64_t>> expiry = file->Get();
    if (expiry.ok()) expiries_[option] = **expiry;
    status.Update(expiry.status());
  }
  return status;
}

std::map<std::string, int64_t> Certificates::expiries() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return expiries_;
}

}  // namespace hpu::server
