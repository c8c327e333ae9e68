#include "emulator/runtime/pack_cache.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace hpu::emulator {
namespace {

class PackCacheTest : public ::testing::Test {
 protected:
  std::shared_ptr<PackedCopy> Get(PackCache& cache, uint64_t address, uint64_t bytes,
                                  const std::string& format, uint64_t now) {
    const auto copy = cache.Get({address, bytes, format}, bytes, now);
    if (copy->Claim()) {
      ++packs_;
      std::memset(copy->data(), packs_, bytes);
      copy->SetReady();
    }
    copy->WaitReady();
    return copy;
  }
  Counters counters_;
  int packs_ = 0;
};

TEST_F(PackCacheTest, SharesEqualFormatsAndKeepsOthersApart) {
  PackCache cache(1 << 20, &counters_);
  const auto a = Get(cache, 1000, 64, "x", 1);
  EXPECT_EQ(Get(cache, 1000, 64, "x", 2), a);
  EXPECT_NE(Get(cache, 1000, 64, "y", 2), a);
  EXPECT_NE(Get(cache, 1064, 64, "x", 2), a);
  EXPECT_EQ(packs_, 3);
  EXPECT_EQ(counters_.packs.load(), 3u);
  EXPECT_EQ(counters_.pack_hits.load(), 1u);
  EXPECT_EQ(cache.bytes(), 192u);
}

TEST_F(PackCacheTest, DropsWhateverOverlapsByOneByte) {
  PackCache cache(1 << 20, &counters_);
  struct Case {
    uint64_t address, bytes;
    bool dropped;
  };
  for (const Case& c :
       {Case{900, 100, false}, Case{900, 101, true}, Case{1063, 1, true}, Case{1064, 100, false},
        Case{0, 5000, true}, Case{1010, 4, true}, Case{1010, 0, false}}) {
    const auto copy = Get(cache, 1000, 64, "x", 1);
    ASSERT_TRUE(copy->valid());
    cache.Drop(c.address, c.bytes);
    EXPECT_EQ(copy->valid(), !c.dropped) << c.address << "+" << c.bytes;
  }
  cache.Drop(0, 5000);
  EXPECT_EQ(cache.bytes(), 0u);
}

TEST_F(PackCacheTest, EverySourceOfACopyCounts) {
  PackCache cache(1 << 20, &counters_);
  const std::vector<DeviceRange> others = {{3000, 8}, {2000, 64}, {3000, 16}};
  const auto get = [&] {
    const auto copy = cache.Get({1000, 64, "x"}, 128, 1, others);
    if (copy->Claim()) copy->SetReady();
    return copy;
  };
  for (const uint64_t address : {1000, 1063, 2000, 2063, 3000, 3007, 3015}) {
    const auto copy = get();
    EXPECT_EQ(get(), copy);
    cache.Drop(1064, 936);
    cache.Drop(2064, 936);
    cache.Drop(3016, 4);
    ASSERT_TRUE(copy->valid());
    cache.Drop(address, 1);
    EXPECT_FALSE(copy->valid()) << address;
    EXPECT_EQ(cache.bytes(), 0u);
  }
  const auto copy = get();
  Get(cache, 3000, 8, "y", 1);
  cache.Drop(0, 5000);  // one write over all sources of two copies
  EXPECT_FALSE(copy->valid());
  EXPECT_EQ(cache.bytes(), 0u);
}

TEST_F(PackCacheTest, LongSourceFarBelowTheWriteIsFound) {
  PackCache cache(1 << 20, &counters_);
  const auto longer = Get(cache, 1000, 5000, "x", 1);
  const auto near = Get(cache, 5900, 10, "x", 1);
  cache.Drop(5950, 1);
  EXPECT_FALSE(longer->valid());
  EXPECT_TRUE(near->valid());
}

TEST_F(PackCacheTest, EvictsLeastRecentlyUsedButNothingOfThisLaunch) {
  PackCache cache(200, &counters_);
  const auto old = Get(cache, 1000, 100, "x", 1);
  const auto recent = Get(cache, 2000, 100, "x", 2);
  Get(cache, 1000, 100, "x", 3);
  const auto third = Get(cache, 3000, 100, "x", 4);
  EXPECT_TRUE(old->valid());
  EXPECT_FALSE(recent->valid());
  EXPECT_EQ(cache.bytes(), 200u);
  EXPECT_EQ(counters_.packs_evicted.load(), 1u);
  // A launch may need more than the limit at once.
  const auto p = Get(cache, 4000, 100, "x", 5);
  const auto q = Get(cache, 5000, 100, "x", 5);
  const auto r = Get(cache, 6000, 100, "x", 5);
  EXPECT_TRUE(p->valid() && q->valid() && r->valid());
  EXPECT_EQ(cache.bytes(), 300u);
}

TEST_F(PackCacheTest, ChangeDuringPackingIsNotKept) {
  PackCache cache(1 << 20, &counters_);
  const auto copy = cache.Get({1000, 64, "x"}, 64, 1);
  ASSERT_TRUE(copy->Claim());
  cache.Drop(1000, 64);
  copy->SetReady();
  EXPECT_FALSE(copy->valid());
  EXPECT_NE(Get(cache, 1000, 64, "x", 2), copy);
}

constexpr uint64_t kLarge = 1 << 20;

TEST_F(PackCacheTest, RewrittenSourcesArePackedIntoTheSameMemory) {
  PackCache cache(4 * kLarge, &counters_);
  auto copy = Get(cache, 1000, kLarge, "x", 1);
  const uint8_t* memory = copy->data();
  cache.Rewrite(1000, 1, 1);
  EXPECT_FALSE(copy->valid());
  EXPECT_EQ(cache.bytes(), kLarge);
  copy.reset();
  copy = Get(cache, 1000, kLarge, "x", 2);
  EXPECT_EQ(copy->data(), memory);
  EXPECT_EQ(copy->data()[kLarge - 1], 2);  // packed again
  EXPECT_EQ(cache.bytes(), kLarge);
  EXPECT_EQ(counters_.packs_dropped.load(), 1u);
  // It does not do so while a launch holds it, nor for another format.
  cache.Rewrite(1000, 1, 2);
  EXPECT_NE(Get(cache, 1000, kLarge, "y", 3)->data(), memory);
  EXPECT_NE(Get(cache, 1000, kLarge, "x", 3)->data(), memory);
  EXPECT_EQ(copy->data()[0], 2);
}

TEST_F(PackCacheTest, StaleMemoryGoesFirstOrWhenItIsOldOrItsSourceDies) {
  PackCache cache(3 * kLarge, &counters_);
  const auto valid = Get(cache, kLarge, kLarge, "x", 1);
  Get(cache, 3 * kLarge, kLarge, "x", 2);
  cache.Rewrite(3 * kLarge, 1, 2);
  Get(cache, 5 * kLarge, 2 * kLarge, "x", 3);  // needs room
  EXPECT_TRUE(valid->valid());
  EXPECT_EQ(cache.bytes(), 3 * kLarge);
  EXPECT_EQ(counters_.packs_evicted.load(), 0u);
  cache.Rewrite(5 * kLarge, 1, 3);
  EXPECT_EQ(cache.bytes(), 3 * kLarge);
  cache.Rewrite(0, 1, 3000);
  EXPECT_EQ(cache.bytes(), kLarge);
  cache.Rewrite(kLarge, 1, 3001);
  EXPECT_EQ(cache.bytes(), kLarge);
  cache.Drop(kLarge, 1);  // as when it is freed
  EXPECT_EQ(cache.bytes(), 0u);
  EXPECT_EQ(counters_.packs_dropped.load(), 3u);
  Get(cache, 1000, kLarge - 1, "x", 4);  // too small to keep
  cache.Rewrite(1000, 1, 4);
  EXPECT_EQ(cache.bytes(), 0u);
}

TEST_F(PackCacheTest, ConcurrentUsersPackOnceAndSeeItComplete) {
  PackCache cache(1 << 20, &counters_);
  std::atomic<int> packs{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < 200; ++i) {
        const auto copy = cache.Get({i * 1000, 64, "x"}, 64, i);
        if (copy->Claim()) {
          packs.fetch_add(1);
          std::memset(copy->data(), 7, 64);
          copy->SetReady();
        }
        copy->WaitReady();
        ASSERT_EQ(copy->data()[63], 7);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(packs.load(), 200);
}

// A source of three pages, which is filled with one byte, and a restorer that copies.
class EvictionTest : public PackCacheTest {
 protected:
  static constexpr uint64_t kBytes = 3 * 4096;
  void SetUp() override {
    source_ = static_cast<uint8_t*>(std::aligned_alloc(4096, kBytes));
    std::memset(source_, 9, kBytes);
  }
  void TearDown() override { std::free(source_); }

  std::shared_ptr<PackedCopy> Pack(PackCache& cache, const std::string& format) {
    const auto copy = cache.Get({address(), kBytes, format}, kBytes, 1);
    if (copy->Claim()) {
      std::memcpy(copy->data(), source_, kBytes);
      copy->SetRestorer({.code = nullptr, .function = &CopyBytes, .tasks = kBytes});
      copy->SetReady();
    }
    return copy;
  }
  static void CopyBytes(void* const* operands, int64_t begin, int64_t end, void*) {
    std::memcpy(static_cast<char*>(operands[1]) + begin,
                static_cast<const char*>(operands[0]) + begin, static_cast<size_t>(end - begin));
  }
  uint64_t address() const { return reinterpret_cast<uint64_t>(source_); }

  uint8_t* source_ = nullptr;
};

TEST_F(EvictionTest, GivesPagesBackAndRestoresThemForWhoeverUsesOneByte) {
  PackCache cache(1 << 20, &counters_);
  const auto copy = Pack(cache, "x");
  EXPECT_FALSE(copy->CountUse());
  EXPECT_TRUE(copy->CountUse());
  cache.EvictSources({&copy, 1});
  EXPECT_EQ(source_[5000], 0) << "a fresh page";
  EXPECT_EQ(counters_.source_bytes_evicted.load(), kBytes);
  EXPECT_FALSE(copy->CountUse()) << "it is gone already";
  {
    MemoryAccess access(&cache);
    access.Use(address() - 100, 100);
    access.Use(address() + kBytes, 100);
    EXPECT_EQ(source_[5000], 0) << "the neighbours are no reason";
    access.Use(address() + kBytes - 1, 1);
    EXPECT_EQ(source_[5000], 9);
  }
  EXPECT_EQ(counters_.source_bytes_evicted.load(), 0u);
  EXPECT_EQ(counters_.sources_restored.load(), 1u);
  int uses = 1;
  while (!copy->CountUse()) ++uses;
  EXPECT_EQ(uses, 16) << "eight times as many launches as before";
}

TEST_F(EvictionTest, NothingIsEvictedDuringAnAccess) {
  PackCache cache(1 << 20, &counters_);
  const auto copy = Pack(cache, "x");
  {
    MemoryAccess access(&cache);
    access.Use(address(), kBytes);
    cache.EvictSources({&copy, 1});
    EXPECT_EQ(source_[5000], 9);
  }
  cache.EvictSources({&copy, 1});
  EXPECT_EQ(source_[5000], 0);
}

TEST_F(EvictionTest, DroppedCopiesAndCopiesWithoutAWayBackKeepTheirSources) {
  PackCache cache(1 << 20, &counters_);
  const auto dropped = Pack(cache, "x");
  cache.Drop(address(), 1);
  const auto one_way = Get(cache, address(), kBytes, "y", 1);
  const std::shared_ptr<PackedCopy> both[] = {dropped, one_way};
  cache.EvictSources(both);
  EXPECT_EQ(source_[5000], 9);
}

TEST_F(EvictionTest, ACopyThatLeavesTheCacheRestoresItsSource) {
  PackCache cache(kBytes, &counters_);
  const auto copy = Pack(cache, "x");
  cache.EvictSources({&copy, 1});
  Get(cache, 1000, 64, "other", 2);
  EXPECT_FALSE(copy->valid());
  EXPECT_EQ(source_[5000], 9);
}

TEST_F(EvictionTest, AccessesOfManyThreadsNeverSeeAHole) {
  PackCache cache(1 << 20, &counters_);
  std::atomic<bool> stop{false};
  const auto first = Pack(cache, "x");
  cache.EvictSources({&first, 1});  // whatever the timing of the threads, one of them restores it
  uint64_t evictions = 0;
  std::thread evicting([&] {
    // On a busy machine the readers may be done before the first eviction, but the evictions after
    // them always succeed.
    for (int late = 0; !stop || (evictions == 0 && late < 10); late += stop ? 1 : 0) {
      const auto copy = Pack(cache, "x");
      cache.EvictSources({&copy, 1});
      if (counters_.source_bytes_evicted.load() != 0) ++evictions;
    }
  });
  std::vector<std::thread> readers;
  for (uint64_t t = 0; t < 3; ++t) {
    readers.emplace_back([&, t] {
      for (int i = 0; i < 3000; ++i) {
        MemoryAccess access(&cache);
        access.Use(address() + 4096 * t, 1);
        for (const uint64_t at : {uint64_t{0}, kBytes / 2, kBytes - 1}) ASSERT_EQ(source_[at], 9);
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  stop = true;
  evicting.join();
  EXPECT_GT(evictions, 0u);
  EXPECT_GT(counters_.sources_restored.load(), 0u);
}

}  // namespace
}  // namespace hpu::emulator
