#include "compiler_server/service/queue/program_maker.h"

#include "program/program.h"

namespace hpu::server {
namespace {

absl::Status CheckOutput(const CompileOutput& output) {
  absl::StatusOr<Program> program = DecodeProgram(output.program);
  if (!program.ok()) {
    return Internal("the compiler gave no valid program: ", ToText(program.status()));
  }
  if (program->recipes.size() != output.recipes.size()) {
    return Internal("the compiler's program names ", program->recipes.size(), " recipes, ",
                    output.recipes.size(), " came with it");
  }
  for (size_t i = 0; i < output.recipes.size(); ++i) {
    if (program->recipes[i].digest != Sha256(output.recipes[i])) {
      return Internal("recipe ", i, " does not have the digest that the program names");
    }
  }
  return absl::OkStatus();
}

store::BlobRef RefOf(const Bytes& bytes) { return {Sha256(bytes), bytes.size()}; }

}  // namespace

absl::StatusOr<store::Entry> MakeProgramEntry(const CompileJob& job, CompileOutput output,
                                              std::chrono::microseconds duration,
                                              const store::SigningKey& signing_key) {
  RETURN_IF_ERROR(CheckOutput(output));
  store::Manifest manifest;
  manifest.content = job.content;
  manifest.program = RefOf(output.program);
  for (const Bytes& recipe : output.recipes) manifest.recipes.push_back(RefOf(recipe));
  manifest.compile_micros = static_cast<uint64_t>(duration.count());
  manifest.created_unix_seconds = std::chrono::duration_cast<std::chrono::seconds>(
                                      std::chrono::system_clock::now().time_since_epoch())
                                      .count();
  ASSIGN_OR_RETURN(Bytes encoded, store::EncodeManifest(manifest));
  std::vector<store::Blob> blobs;
  blobs.push_back(std::make_shared<const Bytes>(std::move(output.program)));
  for (Bytes& recipe : output.recipes) {
    blobs.push_back(std::make_shared<const Bytes>(std::move(recipe)));
  }
  return store::MakeEntry(signing_key.Sign(store::RecordKind::kManifest, std::move(encoded)),
                          std::move(blobs));
}

}  // namespace hpu::server
