#include "compiler_server/bin/compiler_backend.h"

#include <filesystem>
#include <sstream>

#include "compiler_server/compiler/compiler.h"
#include "synapse/loader.h"

namespace hpu::server {
namespace {

absl::StatusOr<bool> ToBool(const std::string& name, const std::string& value) {
  if (value == "true" || value == "1") return true;
  if (value == "false" || value == "0") return false;
  return InvalidArgument("option ", name, " is '", value, "'; allowed are true and false");
}

// Options of the wire: those rows of proto/options.yaml that enter the key.
absl::Status ApplyOption(const std::string& name, const std::string& value,
                         compiler::CompileOptions* options) {
  if (name == "deterministic") {
    ASSIGN_OR_RETURN(options->deterministic, ToBool(name, value));
    return absl::OkStatus();
  }
  if (name == "disabled_passes") {
    std::istringstream passes(value);
    for (std::string pass; std::getline(passes, pass, ',');) options->disabled_passes.insert(pass);
    return absl::OkStatus();
  }
  return InvalidArgument("unknown compile option ", name,
                         "; allowed are deterministic and disabled_passes");
}

class CompilerBackend : public CompileBackend {
 public:
  explicit CompilerBackend(std::unique_ptr<compiler::Compiler> compiler)
      : compiler_(std::move(compiler)) {}

  absl::StatusOr<CompileOutput> Compile(const CompileInput& input,
                                        const ProgressFunction& progress) override {
    compiler::CompileOptions options;
    options.device_kind = input.device_kind;
    options.isa_level = input.isa_level;
    for (const auto& [name, value] : input.options) {
      RETURN_IF_ERROR(ApplyOption(name, value, &options));
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

// The emulator that is packaged next to this program, if it is.
std::string PackagedLibrary() {
  std::error_code error;
  const std::filesystem::path library =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "libSynapse.so";
  return std::filesystem::exists(library, error) ? library.string() : "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<CompileBackend>> MakeCompilerBackend() {
  ASSIGN_OR_RETURN(const SynapseFunctions* functions, LoadSynapse(PackagedLibrary()));
  ASSIGN_OR_RETURN(std::unique_ptr<compiler::Compiler> compiler,
                   compiler::Compiler::Create(*functions));
  return std::make_unique<CompilerBackend>(std::move(compiler));
}

}  // namespace hpu::server
