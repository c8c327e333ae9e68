// Decodes bytes that no encoder of ours wrote: the result is an error, or a valid program that
// encodes to the same bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>

#include "program/program.h"
#include "tests/program/sample.h"

namespace {
size_t largest_allocation = 0;
}  // namespace

void* operator new(size_t size) {
  largest_allocation = std::max(largest_allocation, size);
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t /*size*/) noexcept { std::free(memory); }

namespace hpu {
namespace {

using testing::SampleProgram;

constexpr size_t kBody = 12;  // after magic and version

// Puts a fresh checksum after changed bytes, so that the checks after it are reached.
Bytes Reseal(Bytes bytes) {
  bytes.resize(bytes.size() - sizeof(Digest));
  const Digest digest = Sha256(bytes);
  bytes.insert(bytes.end(), digest.begin(), digest.end());
  return bytes;
}

// Returns true if the decoder accepted the bytes.
bool DecodesToTheSameOrNothing(const Bytes& bytes) {
  const auto decoded = DecodeProgram(bytes);
  if (!decoded.ok()) {
    EXPECT_EQ(decoded.status().code(), absl::StatusCode::kDataLoss) << ToText(decoded.status());
    return false;
  }
  EXPECT_TRUE(ValidateProgram(*decoded).ok());
  EXPECT_EQ(EncodeProgram(*decoded), bytes);
  EXPECT_FALSE(PrintProgram(*decoded).empty());
  return true;
}

TEST(HostileProgram, EveryFlippedByteIsFoundByTheChecksum) {
  const Bytes bytes = EncodeProgram(SampleProgram());
  for (size_t i = 0; i < bytes.size(); ++i) {
    Bytes damaged = bytes;
    damaged[i] ^= 0x40;
    const auto code = DecodeProgram(damaged).status().code();
    const bool in_version = i >= 8 && i < kBody;
    EXPECT_EQ(code, in_version ? absl::StatusCode::kUnimplemented : absl::StatusCode::kDataLoss)
        << "byte " << i;
  }
}

TEST(HostileProgram, EveryTruncationIsDataLoss) {
  const Bytes bytes = EncodeProgram(SampleProgram());
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_EQ(DecodeProgram(std::span(bytes).first(length)).status().code(),
              absl::StatusCode::kDataLoss);
    if (length < kBody || length >= bytes.size() - sizeof(Digest)) continue;
    Bytes sealed(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
    sealed.resize(length + sizeof(Digest));
    EXPECT_EQ(DecodeProgram(Reseal(sealed)).status().code(), absl::StatusCode::kDataLoss) << length;
  }
}

TEST(HostileProgram, EveryResealedByteGivesAnErrorOrTheSameBytes) {
  const Bytes bytes = EncodeProgram(SampleProgram());
  int taken = 0;
  for (size_t i = kBody; i < bytes.size() - sizeof(Digest); ++i) {
    for (const uint8_t mask : {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xFF}) {
      Bytes damaged = bytes;
      damaged[i] ^= mask;
      taken += DecodesToTheSameOrNothing(Reseal(damaged));
    }
  }
  EXPECT_GT(taken, 500);
}

TEST(HostileProgram, ResealedMutationsGiveAnErrorOrTheSameBytes) {
  const Bytes bytes = EncodeProgram(SampleProgram());
  std::mt19937 random(20261121);
  int taken = 0;
  for (int round = 0; round < 20000; ++round) {
    Bytes damaged = bytes;
    for (uint32_t edits = 1 + random() % 3; edits > 0; --edits) {
      damaged[kBody + random() % (damaged.size() - kBody - sizeof(Digest))] =
          static_cast<uint8_t>(random());
    }
    taken += DecodesToTheSameOrNothing(Reseal(damaged));
  }
  EXPECT_GT(taken, 100);
}

// Whatever bytes are read as a count, nothing is allocated beyond what the remaining bytes could
// fill.
TEST(HostileProgram, NoCountAllocates) {
  const Bytes bytes = EncodeProgram(SampleProgram());
  for (const uint32_t count : {0xFFFFFFFFu, 0x7FFFFFFFu, 0x01000000u, 0x00010000u}) {
    for (size_t i = kBody; i + sizeof(count) < bytes.size() - sizeof(Digest); ++i) {
      Bytes damaged = bytes;
      std::memcpy(damaged.data() + i, &count, sizeof(count));
      damaged = Reseal(damaged);
      largest_allocation = 0;
      (void)DecodeProgram(damaged);
      EXPECT_LT(largest_allocation, 100 * bytes.size()) << count << " at " << i;
    }
  }
}

TEST(HostileProgram, OtherVersionIsUnimplemented) {
  Bytes bytes = EncodeProgram(SampleProgram());
  bytes[8] = 99;
  EXPECT_EQ(ToText(DecodeProgram(Reseal(bytes)).status()),
            "UNIMPLEMENTED: program version 99, this build reads 4");
}

TEST(HostileProgram, NamesAreBoundedBeforeTheyAreCopied) {
  Program program = SampleProgram();
  program.functions[0].name.assign(60 << 20, 'x');
  const Bytes bytes = EncodeProgram(program);
  largest_allocation = 0;
  EXPECT_EQ(ToText(DecodeProgram(bytes).status()),
            "DATA_LOSS: program: text of 62914560 bytes, at most 256");
  EXPECT_LT(largest_allocation, 1u << 20);
}

}  // namespace
}  // namespace hpu
