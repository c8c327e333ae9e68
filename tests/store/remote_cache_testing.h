// These functions make a store at a fake remote cache, which has no faults unless a test says
// otherwise.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/store/fake_remote_cache.h"
#include "tests/store/redis_server.h"

namespace hpu::store {

class RemoteCacheTest : public testing::Test {
 protected:
  RemoteCacheTest() { Open(); }
  ~RemoteCacheTest() override { EXPECT_THAT(cache_->Violations(), testing::IsEmpty()); }

  void Restart(FakeRemoteCache::Options options) {
    cache_ = std::make_unique<FakeRemoteCache>(std::move(options));
    Open();
  }
  void Open(const std::function<void(RemoteCacheOptions&)>& change = nullptr) {
    RemoteCacheOptions options = TestOptionsOf(cache_->address());
    if (change) change(options);
    store_ = RemoteStoreAt(options);
  }
  uint64_t Counter(const std::string& name) { return CounterOf(*store_, "remote_cache." + name); }
  void EraseBlob(const Digest& digest) {
    cache_->Use([&](auto& state) { ASSERT_EQ(state.blobs.erase(ToHex(digest)), 1u); });
  }

  std::unique_ptr<FakeRemoteCache> cache_ = std::make_unique<FakeRemoteCache>();
  std::unique_ptr<RemoteCacheRecipeStore> store_;
};

}  // namespace hpu::store
