// hpu_recipe: shows a program and its recipes from files.
//
//   hpu_recipe program.bin                       # inputs, buffers, steps, outputs
//   hpu_recipe program.bin recipe0.bin ...       # and the launch tables of its recipes
//   hpu_recipe --recipe recipe.bin --json
//   hpu_recipe --compile graph.hir               # what the compiler makes of text IR
#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

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

nlohmann::json ToJson(const Program& program) {
  nlohmann::json recipes = nlohmann::json::array();
  for (const RecipeRef& recipe : program.recipes) {
    recipes.push_back({{"name", recipe.name},
                       {"digest", ToHex(recipe.digest)},
                       {"size_bytes", recipe.size_bytes}});
  }
  nlohmann::json eager = nlohmann::json::array();
  for (const Step& step : program.steps) {
    const auto* call = std::get_if<EagerStep>(&step);
    if (call == nullptr) continue;
    eager.push_back({{"op", call->op}, {"overload", call->overload}, {"reason", call->reason}});
  }
  return {{"name", program.name},
          {"nodes", program.node_count},
          {"eager_nodes", program.eager_node_count},
          {"inputs", program.inputs.size()},
          {"outputs", program.outputs.size()},
          {"buffer_bytes", program.buffer_bytes},
          {"steps", program.steps.size()},
          {"recipes", std::move(recipes)},
          {"eager", std::move(eager)}};
}

// HPU_SYNAPSE_LIBRARY, or the emulator that is installed next to this program.
absl::StatusOr<const SynapseFunctions*> OpenLibrary() {
  const std::string packaged =
      FolderOf(reinterpret_cast<const void*>(&OpenLibrary)) + "/libSynapse.so";
  return LoadSynapse(std::filesystem::exists(packaged) ? packaged : "");
}

absl::Status CompileText(const Options& options, Bytes* program, std::vector<Bytes>* recipes) {
  ASSIGN_OR_RETURN(const Bytes text, ReadFile(options.compile));
  ASSIGN_OR_RETURN(ir::Graph graph,
                   ir::Parse({reinterpret_cast<const char*>(text.data()), text.size()}));
  ASSIGN_OR_RETURN(const SynapseFunctions* functions, OpenLibrary());
  ASSIGN_OR_RETURN(const std::unique_ptr<Compiler> compiler, Compiler::Create(*functions));
  ASSIGN_OR_RETURN(CompiledProgram compiled, compiler->Compile(std::move(graph), {}));
  *program = std::move(compiled.program);
  *recipes = std::move(compiled.recipes);
  return absl::OkStatus();
}

absl::Status Run(const Options& options) {
  Bytes program_bytes;
  std::vector<Bytes> recipes;
  if (!options.compile.empty()) {
    RETURN_IF_ERROR(CompileText(options, &program_bytes, &recipes));
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
  app.add_option("--compile", options.compile, "compile this text IR first")->excludes("program");
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
