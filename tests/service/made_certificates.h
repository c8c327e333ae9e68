// Makes good and bad certificates of every kind in this process.
#pragma once

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace hpu::server {

using MadeKey = std::shared_ptr<EVP_PKEY>;
using MadeCertificate = std::shared_ptr<X509>;

inline MadeKey MakeKey() { return {EVP_EC_gen("P-256"), &EVP_PKEY_free}; }
inline MadeKey MakeRsaKey(unsigned bits) { return {EVP_RSA_gen(bits), &EVP_PKEY_free}; }

struct Pair {
  MadeCertificate certificate;
  MadeKey key;
};

struct CertificateWish {
  std::string name = "server";
  bool authority = false;
  int64_t begins_in = -3600;  // seconds from now
  int64_t ends_in = 3600;
  std::string key_usage;  // the value of extendedKeyUsage; empty: any
  MadeKey key;            // empty: a new one
};

inline void AddExtension(X509* certificate, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
  ASSERT_NE(extension, nullptr) << value;
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

// `issuer` is nullptr for a self-signed certificate.
inline Pair MakeCertificate(const CertificateWish& wish, const Pair* issuer) {
  static long serial = 1;
  Pair made{{X509_new(), &X509_free}, wish.key != nullptr ? wish.key : MakeKey()};
  X509* certificate = made.certificate.get();
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate), wish.begins_in);
  X509_gmtime_adj(X509_getm_notAfter(certificate), wish.ends_in);
  X509_set_pubkey(certificate, made.key.get());
  X509_NAME* name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(wish.name.c_str()), -1, -1, 0);
  X509_set_issuer_name(certificate,
                       issuer == nullptr ? name : X509_get_subject_name(issuer->certificate.get()));
  AddExtension(certificate, NID_basic_constraints, wish.authority ? "CA:TRUE" : "CA:FALSE");
  AddExtension(certificate, NID_subject_alt_name, "IP:127.0.0.1,DNS:localhost");
  if (!wish.key_usage.empty()) AddExtension(certificate, NID_ext_key_usage, wish.key_usage);
  EXPECT_GT(
      X509_sign(certificate, issuer == nullptr ? made.key.get() : issuer->key.get(), EVP_sha256()),
      0);
  return made;
}

inline void WriteChain(const std::string& path, const std::vector<Pair>& chain) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  for (const Pair& one : chain) PEM_write_X509(file, one.certificate.get());
  std::fclose(file);
}

inline void WriteKey(const std::string& path, const MadeKey& key,
                     const std::string& password = "") {
  std::FILE* file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  if (password.empty()) {
    PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  } else {
    PEM_write_PrivateKey(file, key.get(), EVP_aes_128_cbc(),
                         reinterpret_cast<const unsigned char*>(password.data()),
                         static_cast<int>(password.size()), nullptr, nullptr);
  }
  std::fclose(file);
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
}

}  // namespace hpu::server
