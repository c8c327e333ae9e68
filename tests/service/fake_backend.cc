#include "tests/service/fake_backend.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <sstream>
#include <thread>

#include "graph/captured_graph.h"
#include "program/program.h"
#include "tests/eventually.h"

namespace hpu::server {
namespace {

void NoteCompile(const std::string& name) {
  const char* path = std::getenv(kFakeCompileLogVariable);
  if (path != nullptr) std::ofstream(path, std::ios::app) << name + "\n" << std::flush;
}

constexpr uint32_t kSteps = 10;

absl::Status Hold(const std::string& file, const ProgressFunction& progress) {
  progress({"held", 0, kSteps});
  if (!Eventually([&] { return std::filesystem::exists(file); })) {
    return Internal("nobody has made ", file);
  }
  for (uint32_t i = 1; i < kSteps; ++i) progress({"held", i, kSteps});
  return absl::OkStatus();
}

void Sleep(int total_ms, const ProgressFunction& progress) {
  for (uint32_t i = 0; i < kSteps; ++i) {
    progress({"sleep", i, kSteps});
    std::this_thread::sleep_for(std::chrono::milliseconds(total_ms / kSteps));
  }
}

void EatMemory() {
  constexpr size_t kBlock = 256 << 20;
  std::vector<std::unique_ptr<char[]>> blocks;
  while (true) blocks.push_back(std::make_unique_for_overwrite<char[]>(kBlock));
}

// Parses "verb:number"; returns 0 without a number.
int NumberOf(const std::string& word) {
  const size_t colon = word.find(':');
  return colon == std::string::npos ? 0 : std::atoi(word.c_str() + colon + 1);
}

}  // namespace

CompileOutput FakeOutput(const std::string& name) {
  size_t recipe_bytes = 100;
  std::istringstream words(name);
  for (std::string word; words >> word;) {
    if (word.starts_with("size:")) recipe_bytes = static_cast<size_t>(NumberOf(word));
  }
  CompileOutput output;
  Bytes recipe(recipe_bytes);
  uint64_t state = std::hash<std::string>()(name) | 1;
  for (uint8_t& byte : recipe) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<uint8_t>(state >> 56);
  }
  Program program;
  program.recipes.push_back({Sha256(recipe), recipe.size()});
  ProgramFunction& forward = program.functions.emplace_back();
  if (!name.empty()) forward.name = name.substr(0, kMaxNameBytes);
  forward.steps.push_back(LaunchStep{0, {}});
  output.program = EncodeProgram(program);
  output.recipes.push_back(std::move(recipe));
  return output;
}

absl::StatusOr<CompileOutput> FakeBackend::Compile(const CompileInput& input,
                                                   const ProgressFunction& progress) {
  const absl::StatusOr<CapturedGraph> graph =
      DecodeGraph({reinterpret_cast<const uint8_t*>(input.graph.data()), input.graph.size()});
  if (!graph.ok()) return InvalidArgument(graph.status().message());
  const Bytes said = graph->constants.empty() ? Bytes() : graph->constants[0].data;
  const std::string name(said.begin(), said.end());
  NoteCompile(name);
  std::istringstream words(name);
  for (std::string word; words >> word;) {
    const std::string verb = word.substr(0, word.find(':'));
    const int number = NumberOf(word);
    if (verb == "held") RETURN_IF_ERROR(Hold(word.substr(word.find(':') + 1), progress));
    if (verb == "sleep") Sleep(number, progress);
    if (verb == "crash") {
      signal(SIGSEGV, SIG_DFL);  // a sanitizer would catch it and exit
      raise(SIGSEGV);
    }
    if (verb == "exit") _exit(number);
    if (verb == "unimplemented") return Unimplemented("aten.fake.default has no lowering");
    // This is an odd number of bytes, then characters of two bytes each.
    if (verb == "verbose") {
      std::string text = "x";
      for (int i = 0; i < number; ++i) text += "\u00e9";
      return Unimplemented(text);
    }
    if (verb == "oom_score") {
      std::string score;
      std::ifstream("/proc/self/oom_score_adj") >> score;
      return Unimplemented("out-of-memory score ", score);
    }
    if (verb == "threads") return Unimplemented(input.threads, " threads");
    if (verb == "invalid") return InvalidArgument("node 3: sizes differ");
    if (verb == "code") return Error(static_cast<absl::StatusCode>(number), "as it was told to");
    if (verb == "internal") return Internal("pass fake: broken");
    if (verb == "memory") EatMemory();
    if (verb == "garbage") return CompileOutput{Bytes(64, 7), {}};
  }
  return FakeOutput(name);
}

absl::StatusOr<std::unique_ptr<CompileBackend>> MakeFakeBackend() {
  return std::make_unique<FakeBackend>();
}

}  // namespace hpu::server
