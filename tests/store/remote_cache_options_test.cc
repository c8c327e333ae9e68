// How a remote cache is named, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recipe_store/stack/factory.h"
#include "tests/store/fake_remote_cache.h"
#include "tests/store/store_testing.h"

namespace hpu::store {
namespace {

using testing::HasSubstr;

TEST(RemoteCacheOptions, AddressesHaveASchemeAHostAndAPort) {
  EXPECT_EQ(ParseRemoteCacheAddress("grpc://cache:8980")->target, "cache:8980");
  EXPECT_FALSE(ParseRemoteCacheAddress("grpc://cache:8980")->tls);
  EXPECT_EQ(ParseRemoteCacheAddress("grpcs://[fd00::2]:443")->target, "[fd00::2]:443");
  EXPECT_TRUE(ParseRemoteCacheAddress("grpcs://[fd00::2]:443")->tls);
  const std::pair<const char*, const char*> wrong[] = {
      {"", "no scheme"},
      {"cache:8980", "no scheme"},
      {"http://cache:8980", "no scheme"},
      {"grpc://cache", "no port"},
      {"grpc://cache:", "no port"},
      {"grpc://cache:0", "no port"},
      {"grpc://cache:65536", "no port"},
      {"grpc://cache:80x", "no port"},
      {"grpc://cache:80/main", "no port"},
      {"grpc://:80", "no usable host"},
      {"grpc://fd00::2:80", "no usable host"},
      {"grpc://a b:80", "no usable host"},
      {"grpc://a/b:80", "no usable host"},
      {"grpc://a:80,b:80", "no usable host"},
      {"grpc://user@a:80", "no usable host"},
  };
  for (const auto& [address, why] : wrong) {
    const absl::Status status = ParseRemoteCacheAddress(address).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << address;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why)) << address;
  }
}

absl::Status Check(const std::function<void(RemoteCacheOptions&)>& change) {
  RemoteCacheOptions options;
  options.address = "grpcs://cache:443";
  change(options);
  return CheckRemoteCacheOptions(options);
}

TEST(RemoteCacheOptions, WhatCannotWorkIsRefused) {
  EXPECT_TRUE(Check([](auto&) {}).ok());
  EXPECT_TRUE(Check([](auto& o) { o.instance = "team/main"; }).ok());
  EXPECT_TRUE(Check([](auto& o) { o.access.token_file = "t"; }).ok());
  const std::function<void(RemoteCacheOptions&)> wrong[] = {
      [](auto& o) { o.instance = "a//b"; },
      [](auto& o) { o.instance = "/a"; },
      [](auto& o) { o.instance = "a/"; },
      [](auto& o) { o.instance = "a/blobs"; },
      [](auto& o) { o.instance = "uploads"; },
      [](auto& o) { o.instance = "a b"; },
      [](auto& o) { o.instance = std::string(257, 'a'); },
      [](auto& o) { o.access.certificate_file = "c"; },
      [](auto& o) { o.access.key_file = "k"; },
      [](auto& o) { o.address = "grpc://cache:1", o.access.token_file = "t"; },
      [](auto& o) { o.address = "grpc://cache:1", o.access.ca_file = "c"; },
      [](auto& o) { o.timeout = std::chrono::milliseconds(0); },
      [](auto& o) { o.retry_after = std::chrono::milliseconds(0); },
      [](auto& o) { o.max_retry_after = std::chrono::milliseconds(1); },
      [](auto& o) { o.max_entry_bytes = 0; },
      [](auto& o) { o.min_bytes_per_second = 0; },
  };
  for (size_t i = 0; i < std::size(wrong); ++i) {
    EXPECT_TRUE(absl::IsInvalidArgument(Check(wrong[i]))) << i;
  }
}

StoreConfig ConfigWithBoth() {
  StoreConfig config;
  config.remote_cache = TestOptionsOf("grpc://127.0.0.1:1");
  config.redis.emplace();
  config.redis->addresses = "127.0.0.1:1";
  return config;
}

TEST(RemoteCacheOptions, BesideIt) {
  StoreConfig config = ConfigWithBoth();
  const absl::StatusOr<OpenedStore> both = OpenStore(config);
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_NE(both->leases, nullptr);
  std::map<std::string, uint64_t> counters;
  both->store->AddCounters(counters);
  EXPECT_TRUE(counters.contains("remote_cache.hits"));
  EXPECT_FALSE(counters.contains("redis.hits")) << "Redis keeps leases only";

  config.redis_read_only = true;
  EXPECT_TRUE(absl::IsInvalidArgument(OpenStore(config).status()));
  config.redis.reset();
  config.redis_read_only = false;
  const absl::StatusOr<OpenedStore> alone = OpenStore(config);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->leases, nullptr);
  EXPECT_NE(alone->behind, nullptr);

  config.remote_cache->address = "cache";
  EXPECT_TRUE(absl::IsInvalidArgument(OpenStore(config).status()));
}

}  // namespace
}  // namespace hpu::store
