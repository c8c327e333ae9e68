// The client's side of a program stream.
#include "backend/client/program_assembler.h"

#include <gtest/gtest.h>

#include <random>

#include "compile_service.pb.h"
#include "compiler_server/service/program_stream.h"
#include "tests/store/store_testing.h"

namespace hpu::server {
namespace {

using store::KeyOf;

// Any order and any bytes of parts give an error or exactly the program.
TEST(ProgramAssembler, SurvivesMutatedStreams) {
  const store::Entry entry = store::EntryOf(1, 3, 2000);
  std::vector<wire::ProgramPart> parts;
  ProgramStream stream(entry, 700);
  for (wire::ProgramPart part; stream.Next(&part);) parts.push_back(part);
  ASSERT_EQ(parts.size(), 1u + 1u + 3u * 3u);
  std::mt19937 random(6);
  int whole = 0;
  for (int i = 0; i < 3000; ++i) {
    std::vector<wire::ProgramPart> sent = parts;
    switch (random() % 5) {
      case 0:
        sent.erase(sent.begin() + static_cast<long>(random() % sent.size()));
        break;
      case 1:
        std::swap(sent[random() % sent.size()], sent[random() % sent.size()]);
        break;
      case 2:
        sent.push_back(sent[random() % sent.size()]);
        break;
      case 3: {
        std::string bytes = sent[random() % sent.size()].SerializeAsString();
        bytes[random() % bytes.size()] ^= static_cast<char>(1 + random() % 255);
        wire::ProgramPart mutated;
        if (mutated.ParseFromString(bytes)) sent[random() % sent.size()] = mutated;
        break;
      }
      default:
        break;
    }
    client::ProgramAssembler assembler(KeyOf(1), store::TestKey().public_key());
    absl::Status status;
    for (const wire::ProgramPart& part : sent) {
      if (status.ok()) status = assembler.Add(part);
    }
    const absl::StatusOr<store::Entry> result =
        status.ok() ? assembler.Finish() : absl::StatusOr<store::Entry>(status);
    if (!result.ok()) continue;
    ++whole;
    EXPECT_TRUE(store::SameEntry(*result, entry));
  }
  EXPECT_GT(whole, 300);
  EXPECT_LT(whole, 1500);
}

}  // namespace
}  // namespace hpu::server
