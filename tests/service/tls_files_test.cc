// Unusable certificates and keys are refused by name before the server listens or a client
// connects.
#include "proto/tls_files.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fstream>

#include "compiler_server/service/doors/network.h"
#include "proto/channel_access.h"
#include "tests/service/made_certificates.h"
#include "tests/store/store_testing.h"

namespace hpu::server {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr int64_t kDay = 86'400;

class TlsFilesTest : public testing::Test {
 protected:
  TlsFilesTest() {
    std::ofstream(folder_.path("callers")) << "node7 team read certificate\n";
    options_.listen = {{client::Endpoint::Kind::kTls, "127.0.0.1:8471"}};
    options_.callers_file = folder_.path("callers");
    options_.certificate_file = folder_.path("server.pem");
    options_.key_file = folder_.path("server.key");
    Write({good_, intermediate_}, good_.key);
  }
  void Write(const std::vector<Pair>& chain, const MadeKey& key) const {
    WriteChain(options_.certificate_file, chain);
    WriteKey(options_.key_file, key);
  }
  std::string Checked(const std::vector<Pair>& chain, const MadeKey& key) const {
    Write(chain, key);
    return ToText(CheckNetwork(options_));
  }
  std::string Checked(const Pair& one) const { return Checked({one}, one.key); }
  Pair Signed(const CertificateWish& wish) const { return MakeCertificate(wish, &authority_); }
  std::string CheckedAuthorities(const std::vector<Pair>& chain) {
    options_.client_ca_file = folder_.path("ca.pem");
    WriteChain(options_.client_ca_file, chain);
    return ToText(CheckNetwork(options_));
  }
  std::string certificate() const { return "--tls-certificate " + options_.certificate_file; }
  std::string key() const { return "--tls-key " + options_.key_file; }

  const store::TemporaryFolder folder_;
  const Pair authority_ = MakeCertificate({.name = "root", .authority = true}, nullptr);
  const Pair intermediate_ = Signed({.name = "middle", .authority = true});
  const Pair good_ = MakeCertificate({}, &intermediate_);
  NetworkOptions options_;
};

TEST_F(TlsFilesTest, AChainAndItsKeyAreGood) {
  EXPECT_EQ(ToText(CheckNetwork(options_)), "OK");
  EXPECT_EQ(Checked({good_, intermediate_, authority_}, good_.key), "OK");
  EXPECT_EQ(Checked(MakeCertificate({}, nullptr)), "OK") << "signed by itself";
  EXPECT_EQ(Checked(Signed({.key_usage = "serverAuth,clientAuth"})), "OK");
  EXPECT_EQ(Checked(Signed({.key = MakeRsaKey(2048)})), "OK");
}

TEST_F(TlsFilesTest, TimesAreLookedAt) {
  EXPECT_THAT(Checked(Signed({.begins_in = -2 * kDay, .ends_in = -kDay})),
              testing::ContainsRegex("^INVALID_ARGUMENT: .*server.pem: certificate 1: it expired "
                                     "on 20[0-9-]+ [0-9:]+ UTC$"));
  EXPECT_THAT(Checked(Signed({.begins_in = kDay, .ends_in = 2 * kDay})),
              HasSubstr(certificate() + ": certificate 1: it is not valid before 20"));
  const Pair old =
      Signed({.name = "middle", .authority = true, .ends_in = -60, .key = intermediate_.key});
  EXPECT_THAT(Checked({good_, old}, good_.key),
              HasSubstr(certificate() + ": certificate 2: it expired on 20"));
}

TEST_F(TlsFilesTest, TheOrderOfTheChainIsLookedAt) {
  const std::string wrong =
      " does not sign certificate 1; the order is the own certificate, its issuer, that one's "
      "issuer";
  EXPECT_EQ(Checked({good_, authority_}, good_.key),
            "INVALID_ARGUMENT: " + certificate() + ": certificate 2" + wrong);
  EXPECT_EQ(Checked({intermediate_, good_}, good_.key),
            "INVALID_ARGUMENT: " + certificate() + ": certificate 2" + wrong);
  EXPECT_THAT(Checked({good_, intermediate_, good_}, good_.key),
              HasSubstr("certificate 3 does not sign certificate 2"));
}

TEST_F(TlsFilesTest, TheKeyMustFit) {
  EXPECT_EQ(Checked({good_}, MakeKey()), "INVALID_ARGUMENT: " + key() +
                                             " is not the key of the first certificate in " +
                                             certificate());
  EXPECT_THAT(Checked({good_, intermediate_}, intermediate_.key),
              HasSubstr("is not the key of the first certificate"));
  EXPECT_THAT(Checked({good_}, MakeRsaKey(2048)), HasSubstr("is not the key of the first"));
  WriteKey(options_.key_file, good_.key, "password");
  EXPECT_EQ(ToText(CheckNetwork(options_)),
            "INVALID_ARGUMENT: " + key() +
                " needs a password, and nobody can be asked for it; store the key without one");
  for (const char* text : {"", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n"}) {
    std::ofstream(options_.key_file) << text;
    EXPECT_EQ(ToText(CheckNetwork(options_)),
              "INVALID_ARGUMENT: " + key() + " has no private key in PEM")
        << text;
  }
  std::ofstream(options_.key_file) << "-----BEGIN PRIVATE KEY-----\nAAAA\n"
                                      "-----END PRIVATE KEY-----\n";
  EXPECT_THAT(ToText(CheckNetwork(options_)),
              StartsWith("INVALID_ARGUMENT: " + key() + " cannot be read: "));
  // TLS accepts no key of this size.
  EXPECT_THAT(Checked(Signed({.key = MakeRsaKey(1024)})),
              HasSubstr(certificate() + " cannot be used for TLS: ee key too small"));
}

TEST_F(TlsFilesTest, ACertificateForSomethingElseIsRefused) {
  for (const char* usage : {"clientAuth", "codeSigning", "emailProtection"}) {
    EXPECT_EQ(Checked(Signed({.key_usage = usage})),
              "INVALID_ARGUMENT: " + certificate() +
                  ": certificate 1 is not for a TLS server: its extensions on the use of its key "
                  "leave that out");
  }
  const Pair server_only = Signed({.key_usage = "serverAuth"});
  EXPECT_EQ(Checked(server_only), "OK");
  Access access;
  access.certificate_file = options_.certificate_file;
  access.key_file = options_.key_file;
  EXPECT_THAT(ToText(ReadTlsAccess(access).status()),
              HasSubstr("--upstream-certificate " + options_.certificate_file +
                        ": certificate 1 is not for a TLS client"));
}

TEST_F(TlsFilesTest, AuthoritiesMustBeSome) {
  EXPECT_EQ(CheckedAuthorities({authority_}), "OK");
  EXPECT_EQ(CheckedAuthorities({MakeCertificate({}, nullptr)}), "OK") << "itself alone";
  const std::string ca = "--tls-client-ca " + options_.client_ca_file;
  EXPECT_EQ(
      CheckedAuthorities({authority_, good_}),
      "INVALID_ARGUMENT: " + ca + ": certificate 2 is not an authority's: it may sign no other");
  EXPECT_EQ(CheckedAuthorities({}), "INVALID_ARGUMENT: " + ca + " has no certificate in PEM");
  const Pair old = MakeCertificate({.name = "old", .authority = true, .ends_in = -60}, nullptr);
  EXPECT_EQ(CheckedAuthorities({old, authority_}), "OK") << "one that is valid is enough";
  EXPECT_THAT(CheckedAuthorities({old}),
              HasSubstr(ca + " has no authority that is valid now; certificate 1: it expired on"));
}

TEST_F(TlsFilesTest, WhatIsNoRegularFileIsNotWaitedFor) {
  const std::string fifo = folder_.path("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const auto& [field, option] :
       {std::pair(&NetworkOptions::certificate_file, "--tls-certificate"),
        std::pair(&NetworkOptions::key_file, "--tls-key"),
        std::pair(&NetworkOptions::client_ca_file, "--tls-client-ca")}) {
    for (const std::string& path : {fifo, folder_.path(), std::string("/dev/zero")}) {
      NetworkOptions options = options_;
      options.*field = path;
      EXPECT_THAT(ToText(CheckNetwork(options)),
                  StartsWith("UNAVAILABLE: " + std::string(option) + ": " + path +
                             " cannot be read: it is"));
    }
  }
  Access access{.options = "remote-cache"};
  access.ca_file = fifo;
  EXPECT_THAT(ToText(ReadTlsAccess(access).status()), HasSubstr("--remote-cache-ca: " + fifo));
  EXPECT_THAT(ToText(ReadBearer(fifo).status()), HasSubstr("it is a FIFO"));
}

TEST_F(TlsFilesTest, SecretsAreKept) {
  ASSERT_EQ(chmod(options_.key_file.c_str(), 0666), 0);
  EXPECT_THAT(ToText(CheckNetwork(options_)),
              StartsWith("PERMISSION_DENIED: --tls-key: " + options_.key_file +
                         " can be written by other users"));
  ASSERT_EQ(chmod(options_.key_file.c_str(), 0644), 0);
  EXPECT_THAT(ToText(CheckNetwork(options_)), HasSubstr("is a secret that every user can read"));
  Access access;
  access.certificate_file = options_.certificate_file;
  access.key_file = options_.key_file;
  EXPECT_TRUE(ReadTlsAccess(access).ok()) << "a client's connection is not lost over it";
  EXPECT_THAT(ToText(CheckAccess(access)), StartsWith("PERMISSION_DENIED: --upstream-key: "));
  ASSERT_EQ(chmod(options_.key_file.c_str(), 0400), 0);
  access.token_file = folder_.path("token");
  std::ofstream(access.token_file) << "secret\n";
  EXPECT_THAT(ToText(CheckAccess(access)), StartsWith("PERMISSION_DENIED: --upstream-token: "));
  ASSERT_EQ(chmod(access.token_file.c_str(), 0600), 0);
  EXPECT_EQ(ToText(CheckAccess(access)), "OK");
}

}  // namespace
}  // namespace hpu::server
