// hpu_recipe: shows a program and its recipes from files.
//
//   hpu_recipe program.bin                       # inputs, buffers, steps, outputs
//   hpu_recipe program.bin recipe0.bin ...       # and the launch tables of its recipes
//   hpu_recipe --recipe recipe.bin --json
//   hpu_recipe --compile graph.hir               # what the compiler makes of text IR
//   hpu_recipe --compile graph.hir --dump-dir .graph_dumps --disable simplify
//                                                # every stage as text; to find a pass at fault
//   hpu_recipe --compile captured.bin --dump-dir .graph_dumps --isa-level x86-64-v4 --option a=b
//                                                # a captured graph, as its process would send it
#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/container.h"
#include "base/hash.h"
#include "compiler_server/compiler/compiler.h"
#include "compiler_server/compiler/describe_recipe.h"
#include "compiler_server/ir/text.h"
#include "program/program.h"
#include "synapse/loader.h"

namespace hpu::compiler {
namespace {

struct Options {
  std::string program;
  std::vector<std::string> recipes;
  std::string compile;
  std::vector<std::string> key_options;  // name=value
  CompileOptions how;
  bool json = false;
};

absl::StatusOr<Bytes> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("cannot read ", path);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

nlohmann::json ToJson(const RecipeInfo& info) {
  nlohmann::json tensors = nlohmann::json::array();
  for (const RecipeTensorInfo& tensor : info.tensors) {
    tensors.push_back({{"name", tensor.name},
                       {"dtype", tensor.dtype},
                       {"sizes", tensor.sizes},
                       {"section", tensor.section},
                       {"section_offset", tensor.section_offset},
                       {"is_input", tensor.is_input}});
  }
  return {{"digest", info.digest},
          {"size_bytes", info.size_bytes},
          {"workspace_bytes", info.workspace_bytes},
          {"persistent_bytes", info.persistent_bytes},
          {"isa_level", info.isa_level},
          {"tensors", std::move(tensors)}};
}

nlohmann::json ToJson(const ProgramFunction& function) {
  nlohmann::json eager = nlohmann::json::array();
  for (const Step& step : function.steps) {
    const auto* call = std::get_if<EagerStep>(&step);
    if (call == nullptr) continue;
    eager.push_back({{"op", call->op}, {"overload", call->overload}, {"reason", call->reason}});
  }
  return {{"name", function.name},
          {"nodes", function.node_count},
          {"eager_nodes", function.eager_node_count},
          {"inputs", function.inputs.size()},
          {"outputs", function.outputs.size()},
          {"buffer_bytes", function.buffer_bytes},
          {"steps", function.steps.size()},
          {"eager", std::move(eager)}};
}

nlohmann::json ToJson(const Program& program) {
  nlohmann::json recipes = nlohmann::json::array();
  for (const RecipeRef& recipe : program.recipes) {
    recipes.push_back({{"digest", ToHex(recipe.digest)}, {"size_bytes", recipe.size_bytes}});
  }
  nlohmann::json functions = nlohmann::json::array();
  for (const ProgramFunction& function : program.functions) functions.push_back(ToJson(function));
  return {{"functions", std::move(functions)}, {"recipes", std::move(recipes)}};
}

// Opens HPU_SYNAPSE_LIBRARY, or else the emulator that is installed next to this program.
absl::StatusOr<const SynapseFunctions*> OpenLibrary() {
  const std::string packaged =
      FolderOf(reinterpret_cast<const void*>(&OpenLibrary)) + "/libSynapse.so";
  return LoadSynapse(std::filesystem::exists(packaged) ? packaged : "");
}

bool IsCapturedGraph(std::span<const uint8_t> bytes) {
  return bytes.size() >= kContainerHead &&
         std::string_view(reinterpret_cast<const char*>(bytes.data()), 7) == "HPUGRAF";
}

absl::StatusOr<CompileOptions> How(const Options& options) {
  CompileOptions how = options.how;
  for (const std::string& option : options.key_options) {
    const size_t equals = option.find('=');
    if (equals == std::string::npos) return InvalidArgument("--option ", option, ": no value");
    RETURN_IF_ERROR(SetOption(option.substr(0, equals), option.substr(equals + 1), &how.key));
  }
  return how;
}

absl::Status CompileFile(const Options& options, Bytes* program, std::vector<Bytes>* recipes) {
  ASSIGN_OR_RETURN(const CompileOptions how, How(options));
  ASSIGN_OR_RETURN(const Bytes bytes, ReadFile(options.compile));
  ASSIGN_OR_RETURN(const SynapseFunctions* functions, OpenLibrary());
  ASSIGN_OR_RETURN(const std::unique_ptr<Compiler> compiler, Compiler::Create(*functions));
  CompiledProgram compiled;
  if (IsCapturedGraph(bytes)) {
    ASSIGN_OR_RETURN(compiled, compiler->Compile(bytes, how));
  } else {
    ASSIGN_OR_RETURN(ir::Graph graph,
                     ir::Parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    ASSIGN_OR_RETURN(compiled, compiler->Compile(std::move(graph), how));
  }
  *program = std::move(compiled.program);
  *recipes = std::move(compiled.recipes);
  return absl::OkStatus();
}

absl::Status Run(const Options& options) {
  Bytes program_bytes;
  std::vector<Bytes> recipes;
  if (!options.compile.empty()) {
    RETURN_IF_ERROR(CompileFile(options, &program_bytes, &recipes));
  } else if (!options.program.empty()) {
    ASSIGN_OR_RETURN(program_bytes, ReadFile(options.program));
  }
  for (const std::string& path : options.recipes) {
    ASSIGN_OR_RETURN(Bytes bytes, ReadFile(path));
    recipes.push_back(std::move(bytes));
  }
  nlohmann::json json;
  if (!program_bytes.empty()) {
    ASSIGN_OR_RETURN(const Program program, DecodeProgram(program_bytes));
    if (options.json) {
      json["program"] = ToJson(program);
    } else {
      std::cout << PrintProgram(program);
    }
  }
  if (!recipes.empty()) {
    ASSIGN_OR_RETURN(const SynapseFunctions* functions, OpenLibrary());
    RETURN_IF_ERROR(Compiler::Create(*functions).status());  // starts the library
    for (const Bytes& bytes : recipes) {
      ASSIGN_OR_RETURN(const RecipeInfo info, DescribeRecipe(*functions, bytes));
      if (options.json) {
        json["recipes"].push_back(ToJson(info));
      } else {
        std::cout << PrintRecipe(info);
      }
    }
  }
  if (options.json) std::cout << json.dump(2) << "\n";
  return absl::OkStatus();
}

}  // namespace
}  // namespace hpu::compiler

int main(int argc, char** argv) {
  hpu::compiler::Options options;
  CLI::App app("Shows programs and recipes.");
  app.add_option("program", options.program, "program file");
  app.add_option("recipes,--recipe", options.recipes, "recipe files");
  app.add_option("--compile", options.compile, "compile this text IR or captured graph first")
      ->excludes("program");
  app.add_option("--isa-level", options.how.isa_level, "emulator only; this host's if not given")
      ->needs("--compile");
  app.add_option("--device-kind", options.how.device_kind, "gaudi2 if not given")
      ->needs("--compile");
  app.add_option("--option", options.key_options, "NAME=VALUE of those in the key (repeatable)")
      ->needs("--compile");
  app.add_option("--dump-dir", options.how.visualization_dir,
                 "write the graph after each pass and the stages of each recipe here")
      ->needs("--compile");
  app.add_option("--disable", options.how.disabled_passes, "pass to skip (repeatable)")
      ->needs("--compile");
  app.add_option("--disable-recipe-passes", options.how.disabled_recipe_passes,
                 "passes of the emulator's graph compiler to skip, with commas")
      ->needs("--compile");
  app.add_flag("--json", options.json, "as JSON");
  CLI11_PARSE(app, argc, argv);
  if (options.program.empty() && options.compile.empty() && options.recipes.empty()) {
    std::cerr << app.help();
    return 2;
  }
  const absl::Status status = hpu::compiler::Run(options);
  if (status.ok()) return 0;
  std::cerr << "hpu_recipe: " << hpu::ToText(status) << "\n";
  return 1;
}
