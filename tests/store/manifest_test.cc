#include "recipe_store/signing/manifest.h"

#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <random>
#include <set>

#include "compile_service.pb.h"
#include "recipe_store/signing/alias.h"
#include "recipe_store/signing/build_id.h"
#include "recipe_store/signing/signing.h"
#include "tests/store/store_testing.h"

namespace hpu::store {
namespace {

Manifest Sample() {
  Manifest manifest;
  manifest.content = {DigestOf(1), {{"deterministic", "true"}}, "gaudi2", "x86-64-v3", "abc"};
  manifest.program = {DigestOf(2), 10};
  manifest.recipes = {{DigestOf(3), 20}, {DigestOf(4), 0}};
  manifest.compile_micros = 123;
  manifest.created_unix_seconds = 456;
  return manifest;
}

TEST(Manifest, RoundTrips) {
  EXPECT_EQ(DecodeManifest(EncodeManifest(Sample()).value()).value(), Sample());
}

TEST(ContentKey, OfKnownFieldsIsPinned) {
  // A change of it disowns every stored program, so it is changed with the salt
  // (docs/cache_key.md).
  EXPECT_EQ(ToHex(ContentKey(ContentOf(1))),
            "18729f816b6bbcaf7a26fb3693cce8900a1c550cb242d9bcf5b908631e427404");
}

TEST(ContentKey, EveryFieldCounts) {
  std::set<Digest> keys = {ContentKey(ContentOf(1))};
  const auto changed = [&](const std::function<void(Content&)>& change) {
    Content content = ContentOf(1);
    change(content);
    EXPECT_TRUE(keys.insert(ContentKey(content)).second);
  };
  changed([](Content& c) { c.graph[31] ^= 1; });
  changed([](Content& c) { c.options[0].second = "true"; });
  changed([](Content& c) { c.options[0].first = "other"; });
  changed([](Content& c) { c.options.clear(); });
  changed([](Content& c) { c.device_kind = "gaudi3"; });
  changed([](Content& c) { c.isa_level = ""; });
  changed([](Content& c) { c.compiler_build_id = "another"; });
  // The same letters stand in another field.
  changed([](Content& c) {
    c.device_kind = "gaudi2x86-64-v3";
    c.isa_level = "";
  });
}

TEST(ContentKey, OptionsAreThoseOfTheTableWithDefaults) {
  const OptionList initial = {{"deterministic", "false"}};
  EXPECT_EQ(CanonicalOptions({}).value(), initial);
  EXPECT_EQ(CanonicalOptions({{"deterministic", "false"}}).value(), initial);
  EXPECT_EQ(CanonicalOptions({{"deterministic", "true"}}).value()[0].second, "true");
  EXPECT_EQ(ToText(CanonicalOptions({{"inference", "true"}}).status()),
            "INVALID_ARGUMENT: unknown compile option inference; there are: deterministic");
  EXPECT_EQ(ToText(CanonicalOptions({{"deterministic", "True"}}).status()),
            "INVALID_ARGUMENT: option deterministic is 'True'; allowed: true, false");
  EXPECT_EQ(
      ToText(CanonicalOptions({{"deterministic", "true"}, {"deterministic", "true"}}).status()),
      "INVALID_ARGUMENT: compile option deterministic is given twice");
}

TEST(Alias, RoundTripsIsPinnedAndBounded) {
  const Alias alias = AliasOf(1, 2).alias;
  const Bytes bytes = EncodeAlias(alias).value();
  EXPECT_EQ(DecodeAlias(bytes).value(), alias);
  // This may change only together with kAliasVersion.
  EXPECT_EQ(ToHex(Sha256(bytes)),
            "3b9f44281c7b6890ad3c31a3c8de9a398ab6ac7e06e40a4db523337de4c8d3eb");
  wire::Alias message;
  ASSERT_TRUE(message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  message.set_version(kAliasVersion + 1);
  EXPECT_TRUE(absl::IsNotFound(DecodeAlias(ToBytes(message.SerializeAsString())).status()));
  Alias large = alias;
  large.label.assign(kMaxLabelBytes + 1, 'x');
  EXPECT_TRUE(absl::IsInvalidArgument(EncodeAlias(large).status()));
  large = alias;
  large.factors.push_back({"big", std::string(kMaxAliasBytes, 'x')});
  EXPECT_TRUE(absl::IsInvalidArgument(EncodeAlias(large).status()));
  large = alias;
  large.tenant.clear();
  EXPECT_TRUE(absl::IsInvalidArgument(EncodeAlias(large).status()));
}

// Any bytes give an answer, and what decodes can be encoded again.
TEST(Alias, SurvivesMutations) {
  const google::protobuf::LogSilencer silencer;
  const Bytes original = EncodeAlias(AliasOf(1, 2).alias).value();
  std::mt19937 random(4);
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    Bytes bytes = original;
    for (uint32_t n = random() % 4; n <= 3; ++n) {
      bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
    }
    const auto decoded = DecodeAlias(bytes);
    if (!decoded.ok()) {
      ++refused;
      EXPECT_TRUE(absl::IsDataLoss(decoded.status()) || absl::IsNotFound(decoded.status()));
    } else {
      EXPECT_TRUE(EncodeAlias(*decoded).ok());
    }
  }
  EXPECT_GT(refused, 2000);
}

TEST(Manifest, BytesOfVersionTwoArePinned) {
  // Stores written by released builds must stay readable, so this digest may change only together
  // with kManifestVersion.
  EXPECT_EQ(ToHex(Sha256(EncodeManifest(Sample()).value())),
            "6db4416fb3ca5555bcbaf4f35c2afc0a78a7de68fddbaf402a94f1c8b8287f02");
}

TEST(Manifest, AnotherVersionIsAMiss) {
  wire::Manifest message;
  const Bytes bytes = EncodeManifest(Sample()).value();
  ASSERT_TRUE(message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  message.set_version(kManifestVersion + 1);
  const std::string changed = message.SerializeAsString();
  const auto decoded =
      DecodeManifest({reinterpret_cast<const uint8_t*>(changed.data()), changed.size()});
  EXPECT_TRUE(absl::IsNotFound(decoded.status())) << decoded.status();
}

TEST(Manifest, FieldsAreBounded) {
  Manifest manifest = Sample();
  manifest.content.compiler_build_id.assign(300, 'x');
  EXPECT_TRUE(absl::IsInvalidArgument(EncodeManifest(manifest).status()));
  manifest = Sample();
  manifest.program.size_bytes = kMaxBlobBytes + 1;
  EXPECT_TRUE(absl::IsInvalidArgument(EncodeManifest(manifest).status()));
  manifest = Sample();
  manifest.content.options.push_back({"big", std::string(300, 'x')});
  EXPECT_TRUE(absl::IsInvalidArgument(EncodeManifest(manifest).status()));
}

// Any bytes give an answer, and what decodes can be encoded again.
TEST(Manifest, SurvivesMutations) {
  const google::protobuf::LogSilencer silencer;
  const Bytes original = EncodeManifest(Sample()).value();
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    Bytes bytes = original;
    for (uint32_t n = random() % 4; n <= 3; ++n) {
      bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
    }
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    const auto decoded = DecodeManifest(bytes);
    if (!decoded.ok()) {
      ++refused;
      EXPECT_TRUE(absl::IsDataLoss(decoded.status()) || absl::IsNotFound(decoded.status()));
    } else {
      EXPECT_TRUE(EncodeManifest(*decoded).ok());
    }
  }
  EXPECT_GT(refused, 5000);
}

TEST(SignedRecord, RoundTripsAndSurvivesMutations) {
  const SignedRecord original =
      TestKey().Sign(RecordKind::kManifest, EncodeManifest(Sample()).value());
  const Bytes encoded = EncodeSignedRecord(original);
  EXPECT_EQ(DecodeSignedRecord(encoded).value(), original);
  const google::protobuf::LogSilencer silencer;
  std::mt19937 random(2);
  int accepted = 0;
  for (int i = 0; i < 5000; ++i) {
    Bytes bytes = encoded;
    bytes[random() % bytes.size()] ^= static_cast<uint8_t>(1 + random() % 255);
    const auto decoded = DecodeSignedRecord(bytes);
    if (!decoded.ok()) {
      EXPECT_TRUE(absl::IsDataLoss(decoded.status()));
    } else if (VerifySignature(RecordKind::kManifest, *decoded, TestKey().public_key()).ok()) {
      ++accepted;
      EXPECT_EQ(decoded->record, original.record);
    }
  }
  EXPECT_EQ(accepted, 0) << "every changed byte must show";
}

TEST(Signing, RefusesOtherKeysOtherBytesAndNoSignature) {
  const SigningKey other = SigningKey::Generate();
  const SignedRecord good = TestKey().Sign(RecordKind::kManifest, BytesOf(1, 50));
  EXPECT_TRUE(VerifySignature(RecordKind::kManifest, good, TestKey().public_key()).ok());
  EXPECT_TRUE(
      absl::IsPermissionDenied(VerifySignature(RecordKind::kManifest, good, other.public_key())));
  EXPECT_EQ(ToText(VerifySignature(RecordKind::kAlias, good, TestKey().public_key())),
            "PERMISSION_DENIED: the alias's signature is wrong")
      << "a signed manifest is no alias";
  SignedRecord bad = good;
  bad.record[10] ^= 1;
  EXPECT_TRUE(absl::IsPermissionDenied(
      VerifySignature(RecordKind::kManifest, bad, TestKey().public_key())));
  bad = good;
  bad.signature.clear();
  EXPECT_TRUE(absl::IsPermissionDenied(
      VerifySignature(RecordKind::kManifest, bad, TestKey().public_key())));
  bad = good;
  bad.public_key.assign(other.public_key().begin(), other.public_key().end());
  EXPECT_TRUE(absl::IsPermissionDenied(
      VerifySignature(RecordKind::kManifest, bad, TestKey().public_key())));
  EXPECT_TRUE(
      absl::IsPermissionDenied(VerifySignature(RecordKind::kManifest, bad, other.public_key())));
}

TEST(Signing, KeyFilesAreKeptPrivateAndReused) {
  const TemporaryFolder folder;
  const PublicKey first = SigningKey::LoadOrCreate(folder.path()).value().public_key();
  struct stat info{};
  ASSERT_EQ(stat(folder.path(kSecretKeyFile).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(SigningKey::LoadOrCreate(folder.path()).value().public_key(), first);
  EXPECT_EQ(ReadPublicKey(folder.path(kPublicKeyFile)).value(), first);

  // One bit of the seed is changed, so the halves are not of one key any more.
  {
    std::fstream file(folder.path(kSecretKeyFile), std::ios::in | std::ios::out | std::ios::binary);
    char byte = 0;
    file.seekg(5).get(byte);
    file.seekp(5).put(static_cast<char>(byte ^ 1));
    file.close();
    const absl::Status damaged = SigningKey::LoadOrCreate(folder.path()).status();
    EXPECT_TRUE(absl::IsDataLoss(damaged));
    EXPECT_THAT(std::string(damaged.message()),
                testing::HasSubstr("is damaged: its halves are not of one key; remove it"));
    file.open(folder.path(kSecretKeyFile), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(5).put(byte);
  }

  // A lost public half is written again from the secret one.
  std::filesystem::remove(folder.path(kPublicKeyFile));
  EXPECT_EQ(SigningKey::LoadOrCreate(folder.path()).value().public_key(), first);
  EXPECT_EQ(ReadPublicKey(folder.path(kPublicKeyFile)).value(), first);

  ASSERT_EQ(chmod(folder.path(kSecretKeyFile).c_str(), 0644), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(SigningKey::LoadOrCreate(folder.path()).status()));
  std::ofstream(folder.path(kSecretKeyFile), std::ios::trunc) << "short";
  chmod(folder.path(kSecretKeyFile).c_str(), 0600);
  EXPECT_TRUE(absl::IsDataLoss(SigningKey::LoadOrCreate(folder.path()).status()));
}

TEST(Signing, AKeyThatIsThereNeedsNoRoomOnTheDisk) {
  const TemporaryFolder folder;
  const SigningKey key = SigningKey::Generate();
  const std::string path = folder.path("server.sock.pub");
  ASSERT_TRUE(WritePublicKey(path, key.public_key()).ok());
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit full{0, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &full);
  const absl::Status again = WritePublicKey(path, key.public_key());
  const absl::Status other = WritePublicKey(path, TestKey().public_key());
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(again.ok()) << again;
  EXPECT_TRUE(absl::IsUnavailable(other));
  EXPECT_EQ(ReadPublicKey(path).value(), key.public_key()) << "the old one stays";
}

TEST(Signing, ALinkLaidInTheWayDoesNotReceiveTheSecretKey) {
  const TemporaryFolder folder;
  const std::string other = folder.path("other");
  std::ofstream(other) << "kept";
  const std::string laid =
      folder.path(kSecretKeyFile) + std::string(".new.") + std::to_string(getpid());
  for (const bool link : {true, false}) {
    std::filesystem::remove(folder.path(kSecretKeyFile));
    if (link) {
      std::filesystem::create_symlink(other, laid);
    } else {
      std::filesystem::create_hard_link(other, laid);
    }
    EXPECT_TRUE(SigningKey::LoadOrCreate(folder.path()).ok());
    std::string text;
    std::ifstream(other) >> text;
    EXPECT_EQ(text, "kept");
    EXPECT_FALSE(std::filesystem::is_symlink(folder.path(kSecretKeyFile)));
  }
}

TEST(BuildId, FollowsContentsAndNotPlacesOrTimes) {
  const TemporaryFolder a;
  const TemporaryFolder b;
  for (const TemporaryFolder* folder : {&a, &b}) {
    std::ofstream(folder->path("server")) << "program";
    std::ofstream(folder->path("libSynapse.so")) << "library";
  }
  const auto id = [](const TemporaryFolder& folder) {
    return BuildId({folder.path("server"), folder.path("libSynapse.so")}, folder.path("cache"))
        .value();
  };
  const std::string first = id(a);
  EXPECT_EQ(first.size(), 64u);
  EXPECT_EQ(id(b), first);
  EXPECT_EQ(id(a), first) << "from the cache";
  std::ofstream(a.path("libSynapse.so")) << "lybrary";
  EXPECT_NE(id(a), first) << "same size, other bytes";
  std::ofstream(a.path("cache")) << "nonsense\n1 2 3\n";
  EXPECT_NE(id(a), first);
  EXPECT_TRUE(absl::IsNotFound(BuildId({a.path("missing")}, "").status()));
}

TEST(BuildId, CompilerFilesLieBesideTheServer) {
  const TemporaryFolder folder;
  unsetenv("HPU_SYNAPSE_LIBRARY");
  EXPECT_EQ(CompilerFiles(folder.path("server")).size(), 1u);
  std::ofstream(folder.path("libSynapse.so")) << "x";
  std::ofstream(folder.path("libSynapseCompiler.so")) << "x";
  EXPECT_EQ(CompilerFiles(folder.path("server")).size(), 3u);
  const TemporaryFolder other;
  std::ofstream(other.path("libSynapse.so")) << "x";
  setenv("HPU_SYNAPSE_LIBRARY", other.path("libSynapse.so").c_str(), 1);
  EXPECT_EQ(CompilerFiles(folder.path("server")).back(), other.path("libSynapse.so"));
  unsetenv("HPU_SYNAPSE_LIBRARY");
}

}  // namespace
}  // namespace hpu::store
