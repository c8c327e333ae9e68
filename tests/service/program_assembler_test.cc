// The client's side of a program stream.
#include "compile_client/program_assembler.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "compile_service.pb.h"
#include "compiler_server/service/programs/program_stream.h"
#include "tests/store/store_testing.h"

namespace hpu::server {
namespace {

using client::ByContentKey;
using client::ByFrontEndKey;
using client::ProgramAssembler;
using client::Wanted;
using store::AliasOf;
using store::DigestOf;
using store::EntryOf;

absl::StatusOr<store::Entry> Assemble(const store::Entry& entry, const store::AliasRecord* alias,
                                      const Wanted& wanted) {
  ProgramAssembler assembler(wanted, store::TestKeys().keyring());
  ProgramStream stream(entry, alias, 700);
  for (wire::ProgramPart part; stream.Next(&part);) RETURN_IF_ERROR(assembler.Add(part));
  return assembler.Finish();
}

TEST(ProgramAssembler, LetsOutWhatWasWantedAndNothingElse) {
  const store::Entry entry = EntryOf(1);
  const store::AliasRecord alias = AliasOf(5, 1);
  store::Content content = store::ContentOf(1);
  content.compiler_build_id = "whichever";
  for (const Wanted& wanted : {Wanted(ByFrontEndKey{DigestOf(5)}),
                               Wanted(ByContentKey{store::KeyOf(1)}), Wanted(content)}) {
    EXPECT_TRUE(store::SameEntry(Assemble(entry, &alias, wanted).value(), entry));
  }
  const store::AliasRecord another_program = AliasOf(5, 2);
  const store::AliasRecord another_key = AliasOf(6, 1);
  const store::AliasRecord strangers = AliasOf(5, 1, "local", store::SigningKey::Generate());
  store::AliasRecord edited = alias;
  edited.signed_record.record[40] ^= 1;
  store::AliasRecord manifest = alias;
  manifest.signed_record = entry.signed_manifest;
  const store::AliasRecord* const bad[] = {&another_program, &another_key, &strangers,
                                           &edited,          &manifest,    nullptr};
  for (const store::AliasRecord* one : bad) {
    const absl::Status status = Assemble(entry, one, ByFrontEndKey{DigestOf(5)}).status();
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  }
  EXPECT_TRUE(
      absl::IsPermissionDenied(Assemble(entry, &alias, ByContentKey{store::KeyOf(2)}).status()));
  const std::function<void(store::Content&)> changes[] = {
      [](store::Content& c) { c.graph[0] ^= 1; },
      [](store::Content& c) { c.options[0].second = "true"; },
      [](store::Content& c) { c.device_kind = "gaudi3"; },
      [](store::Content& c) { c.isa_level = "x86-64-v2"; }};
  for (const auto& change : changes) {
    store::Content other = content;
    change(other);
    EXPECT_TRUE(absl::IsPermissionDenied(Assemble(entry, nullptr, other).status()));
  }
}

// Parts in any order and with any bytes must give an error or exactly the program.
TEST(ProgramAssembler, SurvivesMutatedStreams) {
  const store::Entry entry = EntryOf(1, 3, 2000);
  const store::AliasRecord alias = AliasOf(5, 1);
  std::vector<wire::ProgramPart> parts;
  ProgramStream stream(entry, &alias, 700);
  for (wire::ProgramPart part; stream.Next(&part);) parts.push_back(part);
  ASSERT_EQ(parts.size(), 9u) << "6,100 bytes, 700 in each";
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
    ProgramAssembler assembler(ByFrontEndKey{DigestOf(5)}, store::TestKeys().keyring());
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
