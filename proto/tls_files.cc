#include "proto/tls_files.h"

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <memory>
#include <vector>

#include "base/regular_file.h"

namespace hpu {
namespace {

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Context = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;

// This is more than any system's list of authorities has.
constexpr size_t kMaxPemBytes = 4 << 20;

// Never asks for a password.
int NoPassword(char*, int, int, void* asked) {
  if (asked != nullptr) *static_cast<bool*>(asked) = true;
  return -1;
}

// OpenSSL's reason for its last failure; its queue of errors is empty afterwards.
std::string LastReason() {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return reason == nullptr ? "unknown reason" : reason;
}

// OpenSSL reports the end of the text as an error.
bool AtEnd() {
  const unsigned long error = ERR_peek_last_error();
  return ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
}

std::string Named(const std::string& option, const std::string& file) {
  return "--" + option + " " + file;
}

absl::StatusOr<std::string> ReadText(const std::string& option, const std::string& file) {
  absl::StatusOr<std::string> text = ReadRegularFile(file, kMaxPemBytes);
  RETURN_IF_ERROR_AT(text.status(), "--" + option);
  return text;
}

Bio Memory(const std::string& text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), &BIO_free};
}

absl::StatusOr<std::vector<Certificate>> Certificates(const std::string& option,
                                                      const std::string& file,
                                                      const std::string& text) {
  ERR_clear_error();
  const Bio bio = Memory(text);
  std::vector<Certificate> found;
  while (true) {
    Certificate certificate(PEM_read_bio_X509(bio.get(), nullptr, &NoPassword, nullptr),
                            &X509_free);
    if (certificate == nullptr) break;
    found.push_back(std::move(certificate));
  }
  if (!AtEnd()) {
    return InvalidArgument(Named(option, file), ": certificate ", found.size() + 1,
                           " cannot be read: ", LastReason());
  }
  ERR_clear_error();
  if (found.empty()) return InvalidArgument(Named(option, file), " has no certificate in PEM");
  return found;
}

absl::StatusOr<int64_t> Seconds(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) {
    return InvalidArgument("no time that can be read: ", LastReason());
  }
  return static_cast<int64_t>(timegm(&parts));
}

std::string ToDate(int64_t seconds) {
  const time_t time = seconds;
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32] = "";
  strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

// Returns OK during the certificate's validity.
absl::Status CheckTime(const X509& certificate) {
  ASSIGN_OR_RETURN(const int64_t begin, Seconds(X509_get0_notBefore(&certificate)));
  ASSIGN_OR_RETURN(const int64_t end, Seconds(X509_get0_notAfter(&certificate)));
  const auto now = static_cast<int64_t>(std::time(nullptr));
  if (now >= end) return InvalidArgument("it expired on ", ToDate(end));
  if (now < begin) {
    return InvalidArgument("it is not valid before ", ToDate(begin), ", and now it is ",
                           ToDate(now));
  }
  return absl::OkStatus();
}

bool Signs(const X509& issuer, const X509& subject) {
  return X509_check_issued(const_cast<X509*>(&issuer), const_cast<X509*>(&subject)) == X509_V_OK;
}

absl::Status CheckChain(TlsEnd end, const std::string& name,
                        const std::vector<Certificate>& chain) {
  for (size_t i = 0; i < chain.size(); ++i) {
    RETURN_IF_ERROR_AT(CheckTime(*chain[i]), name + ": certificate " + std::to_string(i + 1));
    if (i > 0 && !Signs(*chain[i], *chain[i - 1])) {
      return InvalidArgument(name, ": certificate ", i + 1, " does not sign certificate ", i,
                             "; the order is the own certificate, its issuer, that one's issuer");
    }
  }
  const bool serves = end == TlsEnd::kServer;
  if (X509_check_purpose(chain[0].get(), serves ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT,
                         /*ca=*/0) != 1) {
    return InvalidArgument(name, ": certificate 1 is not for a TLS ", serves ? "server" : "client",
                           ": its extensions on the use of its key leave that out");
  }
  return absl::OkStatus();
}

absl::StatusOr<Key> ReadKey(const std::string& name, const std::string& text) {
  ERR_clear_error();
  bool asked = false;
  Key key(PEM_read_bio_PrivateKey(Memory(text).get(), nullptr, &NoPassword, &asked),
          &EVP_PKEY_free);
  if (asked) {
    ERR_clear_error();
    return InvalidArgument(name, " needs a password, and nobody can be asked for it; store the ",
                           "key without one");
  }
  if (key == nullptr && text.find("PRIVATE KEY-----") == std::string::npos) {
    ERR_clear_error();
    return InvalidArgument(name, " has no private key in PEM");
  }
  if (key == nullptr) return InvalidArgument(name, " cannot be read: ", LastReason());
  return key;
}

// Checks what TLS itself also requires, such as the size of the key.
absl::Status CheckUse(const std::string& name, X509& certificate, EVP_PKEY& key) {
  const Context context(SSL_CTX_new(TLS_method()), &SSL_CTX_free);
  if (context != nullptr && SSL_CTX_use_certificate(context.get(), &certificate) == 1 &&
      SSL_CTX_use_PrivateKey(context.get(), &key) == 1) {
    return absl::OkStatus();
  }
  return InvalidArgument(name, " cannot be used for TLS: ", LastReason());
}

}  // namespace

absl::StatusOr<int64_t> ExpiryOfChain(const std::string& option, const std::string& file) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(option, file));
  ASSIGN_OR_RETURN(const std::vector<Certificate> chain, Certificates(option, file, text));
  int64_t expiry = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < chain.size(); ++i) {
    const absl::StatusOr<int64_t> end = Seconds(X509_get0_notAfter(chain[i].get()));
    RETURN_IF_ERROR_AT(end.status(),
                       Named(option, file) + ": certificate " + std::to_string(i + 1));
    expiry = std::min(expiry, *end);
  }
  return expiry;
}

absl::StatusOr<TlsIdentity> ReadTlsIdentity(TlsEnd end, const std::string& chain_option,
                                            const std::string& chain_file,
                                            const std::string& key_option,
                                            const std::string& key_file) {
  TlsIdentity identity;
  ASSIGN_OR_RETURN(identity.chain, ReadText(chain_option, chain_file));
  ASSIGN_OR_RETURN(const std::vector<Certificate> chain,
                   Certificates(chain_option, chain_file, identity.chain));
  const std::string chain_name = Named(chain_option, chain_file);
  RETURN_IF_ERROR(CheckChain(end, chain_name, chain));
  // A process that only calls servers may keep its key in any mode, because its mode endangers no
  // server.
  absl::StatusOr<std::string> key_text = end == TlsEnd::kServer
                                             ? ReadSecret(key_file, kMaxPemBytes)
                                             : ReadRegularFile(key_file, kMaxPemBytes);
  RETURN_IF_ERROR_AT(key_text.status(), "--" + key_option);
  identity.key = *std::move(key_text);
  const std::string key_name = Named(key_option, key_file);
  ASSIGN_OR_RETURN(const Key key, ReadKey(key_name, identity.key));
  if (X509_check_private_key(chain[0].get(), key.get()) != 1) {
    ERR_clear_error();
    return InvalidArgument(key_name, " is not the key of the first certificate in ", chain_name);
  }
  RETURN_IF_ERROR(CheckUse(chain_name, *chain[0], *key));
  return identity;
}

absl::StatusOr<std::string> ReadAuthorities(const std::string& option, const std::string& file) {
  ASSIGN_OR_RETURN(std::string text, ReadText(option, file));
  ASSIGN_OR_RETURN(const std::vector<Certificate> found, Certificates(option, file, text));
  absl::Status no_time;
  size_t valid = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    X509* certificate = found[i].get();
    // A self-signed certificate counts as an authority of its own.
    if (X509_check_ca(certificate) == 0 && !Signs(*certificate, *certificate)) {
      return InvalidArgument(Named(option, file), ": certificate ", i + 1,
                             " is not an authority's: it may sign no other");
    }
    const absl::Status time = CheckTime(*certificate);
    if (time.ok()) ++valid;
    no_time.Update(time);
  }
  if (valid > 0) return text;
  return InvalidArgument(Named(option, file),
                         " has no authority that is valid now; certificate 1: ", no_time.message());
}

}  // namespace hpu
