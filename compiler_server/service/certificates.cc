#include "compiler_server/service/certificates.h"

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <ctime>
#include <limits>

namespace hpu::server {
namespace {

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

// OpenSSL's reason for its last failure; its queue of errors is empty afterwards.
std::string LastReason() {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return reason == nullptr ? "unknown reason" : reason;
}

// That there is no more in the file is one of OpenSSL's errors.
bool AtEnd() {
  const unsigned long error = ERR_peek_last_error();
  return ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
}

}  // namespace

absl::StatusOr<int64_t> ExpiryOfChain(const std::string& option, const std::string& file) {
  ERR_clear_error();
  const Bio bio(BIO_new_file(file.c_str(), "r"), &BIO_free);
  if (bio == nullptr) {
    ERR_clear_error();
    return InvalidArgument("--", option, " ", file, " cannot be read");
  }
  int64_t expiry = std::numeric_limits<int64_t>::max();
  int count = 0;
  while (true) {
    // Nobody is asked for a password.
    const auto no_password = [](char*, int, int, void*) { return -1; };
    const Certificate certificate(PEM_read_bio_X509(bio.get(), nullptr, no_password, nullptr),
                                  &X509_free);
    if (certificate == nullptr) break;
    ++count;
    std::tm end{};
    if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &end) != 1) {
      return InvalidArgument("--", option, " ", file, ": certificate ", count,
                             " has no time of expiry: ", LastReason());
    }
    expiry = std::min<int64_t>(expiry, timegm(&end));
  }
  if (!AtEnd()) {
    return InvalidArgument("--", option, " ", file, ": certificate ", count + 1,
                           " cannot be read: ", LastReason());
  }
  ERR_clear_error();
  if (count == 0) return InvalidArgument("--", option, " ", file, " has no certificate in PEM");
  return expiry;
}

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
