#include "compiler_server/compiler/compiler.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/hash.h"
#include "base/parallel.h"
#include "compiler_server/compiler/configuration_lease.h"
#include "compiler_server/compiler/recipe_bytes.h"
#include "compiler_server/ir/import.h"
#include "compiler_server/lowering/lower.h"
#include "compiler_server/lowering/lower_graph.h"
#include "compiler_server/passes/pipeline.h"
#include "graph.pb.h"
#include "program/program.h"

namespace hpu::compiler {
namespace {

using Clock = std::chrono::steady_clock;

// Real devices write their dumps next to the recipe's name; this folder is what their users expect.
constexpr char kDumpPrefix[] = ".graph_dumps/";

absl::StatusOr<synDeviceType> DeviceTypeOf(const std::string& kind) {
  if (kind == "gaudi") return synDeviceGaudi;
  if (kind == "gaudi2") return synDeviceGaudi2;
  if (kind == "gaudi3") return synDeviceGaudi3;
  return InvalidArgument("device kind \"", kind, "\" is not gaudi, gaudi2 or gaudi3");
}

// Serialises calls of the caller's function.
class Progress {
 public:
  explicit Progress(const CompileOptions& options) : report_(options.progress) {}
  void operator()(std::string_view stage, size_t done, size_t total) {
    if (!report_) return;
    std::lock_guard lock(mutex_);
    report_(stage, static_cast<uint32_t>(done), static_cast<uint32_t>(total));
  }

 private:
  const std::function<void(std::string_view, uint32_t, uint32_t)>& report_;
  std::mutex mutex_;
};

class StageTimer {
 public:
  StageTimer(std::string name, CompileStatistics* statistics)
      : name_(std::move(name)), statistics_(statistics), start_(Clock::now()) {}
  ~StageTimer() {
    statistics_->stages.push_back(
        {name_, std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start_)});
  }
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;

 private:
  const std::string name_;
  CompileStatistics* const statistics_;
  const Clock::time_point start_;
};

absl::Status Transform(ir::Graph& graph, bool emulated, const CompileOptions& options,
                       Progress& progress, CompileStatistics* statistics) {
  std::vector<PassTiming> timings;
  PassOptions pass_options;
  pass_options.disabled = options.disabled_passes;
  pass_options.dump_dir = options.visualization_dir;
  pass_options.progress = [&](std::string_view pass, size_t done, size_t total) {
    progress(pass, done, total);
  };
  pass_options.timings = &timings;
  const PassContext context{.accept = emulated ? CheckLowerableOnEmulator : CheckLowerable};
  const absl::Status status = RunPipeline(graph, context, pass_options);
  for (const PassTiming& timing : timings) {
    statistics->stages.push_back(
        {std::string(timing.pass),
         std::chrono::duration_cast<std::chrono::microseconds>(timing.time)});
  }
  return status;
}

struct CompiledRecipe {
  absl::Status status;
  std::string name;
  Bytes bytes;
};

CompiledRecipe CompileRecipe(const SynapseFunctions& functions, SynGraph& graph,
                             const std::string& name) {
  CompiledRecipe result{absl::OkStatus(), name, {}};
  absl::StatusOr<synRecipeHandle> handle = graph.Compile(name);
  if (!handle.ok()) {
    result.status = handle.status();
    return result;
  }
  const RecipeHandle recipe(functions, *handle);
  absl::StatusOr<Bytes> bytes = SerializeRecipe(functions, recipe.get());
  result.status = bytes.status();
  if (bytes.ok()) result.bytes = *std::move(bytes);
  return result;
}

// Compiles all recipes, several at a time. The graph's name and the place make a recipe's name.
std::vector<CompiledRecipe> CompileRecipes(const SynapseFunctions& functions, LoweredGraph& lowered,
                                           const CompileOptions& options, Progress& progress) {
  std::vector<CompiledRecipe> results(lowered.recipes.size());
  std::atomic<size_t> done = 0;
  const size_t threads =
      options.threads != 0 ? options.threads : std::thread::hardware_concurrency();
  ParallelFor(results.size(), threads, [&](size_t i) {
    SynGraph& graph = *lowered.recipes[i].graph;
    const std::string digest = ToHex(graph.ContentDigest()).substr(0, 8);
    const std::string name = lowered.program.name + "_" + digest;
    results[i] = CompileRecipe(functions, graph,
                               options.visualization_dir.empty() ? name : kDumpPrefix + name);
    results[i].name = name;
    progress("recipe", ++done, results.size());
  });
  return results;
}

// Fills Program::recipes; equal recipes become one.
absl::Status Assemble(LoweredGraph& lowered, std::vector<CompiledRecipe> compiled,
                      CompiledProgram* result) {
  Program& program = lowered.program;
  std::map<Digest, uint32_t> known;
  for (size_t i = 0; i < compiled.size(); ++i) {
    RETURN_IF_ERROR_AT(compiled[i].status, "recipe " + compiled[i].name);
    const Digest digest = Sha256(compiled[i].bytes);
    const auto [entry, is_new] =
        known.emplace(digest, static_cast<uint32_t>(program.recipes.size()));
    std::get<LaunchStep>(program.steps[lowered.recipes[i].step]).recipe = entry->second;
    if (!is_new) continue;
    program.recipes.push_back({digest, compiled[i].bytes.size(), compiled[i].name});
    result->recipes.push_back(std::move(compiled[i].bytes));
  }
  RETURN_IF_ERROR_AT(ValidateProgram(program), "the program that was built");
  result->program = EncodeProgram(program);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Compiler>> Compiler::Create(const SynapseFunctions& functions) {
  const synStatus status = functions.synInitialize();
  // Another user of the library in this process may have started it.
  if (status != synSuccess && status != synAlreadyInitialized &&
      status != synObjectAlreadyInitialized) {
    return ToStatus(functions, status, "synInitialize");
  }
  return std::unique_ptr<Compiler>(new Compiler(functions));
}

absl::StatusOr<CompiledProgram> Compiler::Compile(std::span<const uint8_t> wire_graph,
                                                  const CompileOptions& options) const {
  CompileStatistics statistics;
  absl::StatusOr<ir::Graph> graph = [&]() -> absl::StatusOr<ir::Graph> {
    const StageTimer timer("import", &statistics);
    wire::Graph message;
    if (wire_graph.size() > INT32_MAX ||
        !message.ParseFromArray(wire_graph.data(), static_cast<int>(wire_graph.size()))) {
      return InvalidArgument("these ", wire_graph.size(), " bytes are no graph message");
    }
    return ir::Import(message);
  }();
  RETURN_IF_ERROR(graph.status());
  return Run(*std::move(graph), options, std::move(statistics));
}

absl::StatusOr<CompiledProgram> Compiler::Compile(ir::Graph graph,
                                                  const CompileOptions& options) const {
  return Run(std::move(graph), options, {});
}

absl::StatusOr<CompiledProgram> Compiler::Run(ir::Graph graph, const CompileOptions& options,
                                              CompileStatistics statistics) const {
  const std::string context = "compiling graph " + graph.name();
  CompiledProgram result;
  result.statistics = std::move(statistics);
  Progress progress(options);
  ASSIGN_OR_RETURN(const synDeviceType device, DeviceTypeOf(options.device_kind));
  RETURN_IF_ERROR_AT(
      Transform(graph, functions_.is_emulator(), options, progress, &result.statistics), context);

  ASSIGN_OR_RETURN(
      const ConfigurationLease lease,
      ConfigurationLease::Take(functions_, {options.isa_level, options.visualization_dir}));
  absl::StatusOr<LoweredGraph> lowered = [&] {
    const StageTimer timer("lower", &result.statistics);
    progress("lower", 0, 1);
    return LowerGraph(graph, functions_, {device, options.deterministic});
  }();
  RETURN_IF_ERROR_AT(lowered.status(), context);
  {
    const StageTimer timer("recipes", &result.statistics);
    RETURN_IF_ERROR_AT(
        Assemble(*lowered, CompileRecipes(functions_, *lowered, options, progress), &result),
        context);
  }
  result.statistics.captured_nodes = lowered->program.node_count;
  result.statistics.eager_nodes = lowered->program.eager_node_count;
  result.statistics.launches = static_cast<uint32_t>(lowered->recipes.size());
  return result;
}

}  // namespace hpu::compiler
