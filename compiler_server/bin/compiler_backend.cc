#include "compiler_server/bin/compiler_backend.h"

#include <filesystem>

#include "base/log.h"
#include "compiler_server/compiler/compiler.h"
#include "compiler_server/ir/text.h"
#include "synapse/loader.h"

namespace hpu::server {
namespace {

class CompilerBackend : public CompileBackend {
 public:
  explicit CompilerBackend(std::unique_ptr<compiler::Compiler> compiler)
      : compiler_(std::move(compiler)) {}

  absl::StatusOr<CompileOutput> Compile(const CompileInput& input,
                                        const ProgressFunction& progress) override {
    compiler::CompileOptions options;
    options.device_kind = input.device_kind;
    options.isa_level = input.isa_level;
    options.threads = input.threads;
    for (const auto& [name, value] : input.options) {
      RETURN_IF_ERROR(SetOption(name, value, &options.key));
    }
    options.progress = [&](std::string_view stage, uint32_t done, uint32_t total) {
      progress({std::string(stage), done, total});
    };
    const std::span graph(reinterpret_cast<const uint8_t*>(input.graph.data()), input.graph.size());
    ASSIGN_OR_RETURN(compiler::CompiledProgram compiled, compiler_->Compile(graph, options));
    return CompileOutput{std::move(compiled.program), std::move(compiled.recipes)};
  }

 private:
  const std::unique_ptr<compiler::Compiler> compiler_;
};

// Returns the emulator that is packaged next to this program, or an empty text if there is none.
std::string PackagedLibrary() {
  std::error_code error;
  const std::filesystem::path library =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "libSynapse.so";
  return std::filesystem::exists(library, error) ? library.string() : "";
}

// Compiles a graph of two nodes and discards it. A library loads and initialises its code generator
// at the first compilation, which should not be a user's.
void WarmUp(const compiler::Compiler& compiler) {
  constexpr char kGraph[] =
      "graph @warm_up(%a: f32[4,4], %b: f32[4,4]) {\n"
      "  %0 = matmul %a, %b : f32[4,4]\n"
      "  %1 = relu %0 : f32[4,4]\n"
      "  return %1\n"
      "}\n";
  absl::StatusOr<ir::Graph> graph = ir::Parse(kGraph);
  const absl::Status status =
      graph.ok() ? compiler.Compile(*std::move(graph), {}).status() : graph.status();
  if (!status.ok()) HPU_LOG(kWarning, "warm-up compilation failed error=" << ToText(status));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CompileBackend>> MakeCompilerBackend() {
  ASSIGN_OR_RETURN(const SynapseFunctions* functions, LoadSynapse(PackagedLibrary()));
  ASSIGN_OR_RETURN(std::unique_ptr<compiler::Compiler> compiler,
                   compiler::Compiler::Create(*functions));
  WarmUp(*compiler);
  return std::make_unique<CompilerBackend>(std::move(compiler));
}

}  // namespace hpu::server
