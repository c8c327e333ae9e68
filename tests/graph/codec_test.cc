#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/container.h"
#include "tests/graph/sample_graphs.h"

namespace hpu {
namespace {

using testing::HasSubstr;
using namespace sample_graphs;  // NOLINT: helpers of this folder only

constexpr size_t kChecksum = sizeof(Digest);

// Returns the same bytes with a matching checksum, so that damage reaches the decoder.
Bytes Resealed(Bytes bytes) {
  bytes.resize(bytes.size() - kChecksum);
  const Digest digest = Sha256(bytes);
  bytes.insert(bytes.end(), digest.begin(), digest.end());
  return bytes;
}

TEST(GraphCodec, RoundTrip) {
  const CapturedGraph graph = Everything();
  const Bytes bytes = EncodeGraph(graph);
  const auto decoded = DecodeGraph(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(PrintGraph(*decoded), PrintGraph(graph));
  EXPECT_EQ(EncodeGraph(*decoded), bytes);
}

TEST(GraphCodec, LabelsAreNotInTheDigest) {
  CapturedGraph graph = Everything();
  const Bytes before = EncodeGraph(graph);
  graph.name = "another";
  graph.inputs[0].name = "weight";
  graph.calls[0].source = "elsewhere.py:1 in g";
  const Bytes after = EncodeGraph(graph);
  EXPECT_NE(before, after);
  EXPECT_EQ(*GraphDigest(before), *GraphDigest(after));
}

TEST(GraphCodec, EverythingElseIs) {
  const Digest original = *GraphDigest(EncodeGraph(Everything()));
  const std::vector<void (*)(CapturedGraph&)> changes = {
      [](CapturedGraph& g) { g.inputs[0].spec.sizes[0] = 5; },
      [](CapturedGraph& g) { g.inputs[0].spec.strides[0] = 4; },
      [](CapturedGraph& g) { g.inputs[0].spec.dtype = DType::kF16; },
      [](CapturedGraph& g) { g.inputs[0].on_cpu = true; },
      [](CapturedGraph& g) { g.inputs[0].is_weight = true; },
      [](CapturedGraph& g) { g.inputs[0].is_trained = true; },
      [](CapturedGraph& g) { g.inputs[1].kind = CapturedInput::Kind::kTensor; },
      [](CapturedGraph& g) { g.constants[0].data[1] = 0; },
      [](CapturedGraph& g) { g.schemas[0].target = "aten.neg.default"; },
      [](CapturedGraph& g) { g.schemas[0].arguments[0] = "other"; },
      [](CapturedGraph& g) { g.calls[0].results[0].spec.strides = {1, 2}; },
      [](CapturedGraph& g) { g.calls[1].results[0].memory_of = kOwnMemory; },
      [](CapturedGraph& g) { g.calls[1].results[0].spec.storage_offset = 1; },
      [](CapturedGraph& g) { g.calls[2].writes.clear(); },
      [](CapturedGraph& g) { g.calls[3].draws_random = false; },
      [](CapturedGraph& g) { g.calls[3].args[2].value = 1.25; },
      [](CapturedGraph& g) { g.calls[3].args[1].value = -3.0; },
      [](CapturedGraph& g) { g.outputs.pop_back(); },
      [](CapturedGraph& g) { g.alias_forms[0] = AliasForm::kDetached; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    CapturedGraph graph = Everything();
    changes[i](graph);
    EXPECT_NE(*GraphDigest(EncodeGraph(graph)), original) << "change " << i;
  }
}

TEST(GraphCodec, AnotherVersionIsUnimplemented) {
  Bytes bytes = EncodeGraph(Everything());
  bytes[8] = 9;
  const absl::Status status = DecodeGraph(bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("captured graph version 9"));
}

TEST(GraphCodec, DamageIsFoundByTheChecksum) {
  const Bytes bytes = EncodeGraph(Everything());
  for (size_t i = 12; i < bytes.size(); ++i) {
    Bytes damaged = bytes;
    damaged[i] ^= 0x40;
    EXPECT_EQ(DecodeGraph(damaged).status().code(), absl::StatusCode::kDataLoss) << "byte " << i;
  }
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeGraph(std::span(bytes).first(size)).ok()) << size << " bytes";
  }
}

// Hostile bytes with a matching checksum give a refusal, or a valid graph that encodes to the same
// bytes.
TEST(GraphCodec, HostileBytes) {
  const Bytes bytes = EncodeGraph(Everything());
  std::mt19937 random(20261122);
  int accepted = 0;
  const auto check = [&](Bytes damaged) {
    const auto graph = DecodeGraph(damaged);
    if (!graph.ok()) {
      EXPECT_EQ(graph.status().code(), absl::StatusCode::kDataLoss) << graph.status();
      return;
    }
    ++accepted;
    EXPECT_TRUE(ValidateGraph(*graph).ok());
    EXPECT_EQ(*GraphDigest(EncodeGraph(*graph)), *GraphDigest(damaged));
  };
  for (size_t i = 12; i < bytes.size() - kChecksum; ++i) {
    for (const uint8_t value : {0x00, 0x01, 0x7F, 0xFF}) {
      Bytes damaged = bytes;
      damaged[i] = value;
      check(Resealed(std::move(damaged)));
    }
  }
  for (int round = 0; round < 20'000; ++round) {
    Bytes damaged = bytes;
    const size_t last = damaged.size() - kChecksum;
    for (int edit = 0; edit < 1 + static_cast<int>(random() % 3); ++edit) {
      damaged[12 + random() % (last - 12)] = static_cast<uint8_t>(random());
    }
    if (random() % 4 == 0) {
      const auto at = static_cast<ptrdiff_t>(12 + random() % (last - 12));
      damaged.erase(damaged.begin() + at, damaged.begin() + at + 1);
    }
    check(Resealed(std::move(damaged)));
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace hpu
