#include "compiler_server/compiler/compiler.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/hash.h"
#include "base/parallel.h"
#include "compiler_server/compiler/configuration_lease.h"
#include "compiler_server/ir/import.h"
#include "compiler_server/lowering/device_check.h"
#include "compiler_server/lowering/lower_graph.h"
#include "compiler_server/partition/partition.h"
#include "compiler_server/passes/pipeline.h"
#include "graph/captured_graph.h"
#include "program/program.h"
#include "synapse/device_kind.h"
#include "synapse/recipe_bytes.h"

namespace hpu::compiler {
namespace {

using Clock = std::chrono::steady_clock;

// Real devices write their dumps next to the recipe's name, and users expect them in this folder.
constexpr char kDumpPrefix[] = ".graph_dumps/";

// Serialises the calls of the caller's function.
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

absl::Status Transform(ir::Graph& graph, PipelinePart part, DeviceCheck& device,
                       const CompileOptions& options, Progress& progress,
                       CompileStatistics* statistics) {
  std::vector<PassTiming> timings;
  PassOptions pass_options;
  pass_options.disabled = options.disabled_passes;
  pass_options.dump_dir = options.visualization_dir;
  pass_options.progress = [&](std::string_view pass, size_t done, size_t total) {
    progress(pass, done, total);
  };
  pass_options.timings = &timings;
  const PassContext context{.accept = [&](const ir::Node& node) { return device.Check(node); }};
  const absl::Status status = RunPipeline(graph, context, pass_options, part);
  for (const PassTiming& timing : timings) {
    statistics->stages.push_back(
        {std::string(timing.pass),
         std::chrono::duration_cast<std::chrono::microseconds>(timing.time)});
  }
  return status;
}

// One function of the program before it is lowered.
struct Part {
  std::string name;
  ir::Graph* graph = nullptr;
};

// Whether most of what the graph reads stays the same from call to call. It does not if most of it
// is trained: the graph has gradients of it, or the front end says so (a recording of lazy mode has
// a backward among its calls). (If only a
// model's adapters are trained, most of it stays.)
bool WeightsStay(const ir::Graph& graph) {
  int64_t trained = 0, all = 0;
  std::vector<bool> has_gradient(graph.inputs().size(), false), is_tangent = has_gradient;
  for (const ir::Gradient& gradient : graph.gradients) has_gradient[gradient.input] = true;
  for (const ir::Tangent& tangent : graph.tangents) is_tangent[tangent.tangent] = true;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    if (graph.inputs()[i].value == nullptr || is_tangent[i]) continue;  // null: a scalar
    const int64_t bytes = graph.inputs()[i].value->type.bytes();
    all += bytes;
    if (has_gradient[i] || graph.inputs()[i].is_trained) trained += bytes;
  }
  return 2 * trained < all || all == 0;
}

// By buffer: whether an eager step has it, and so may keep it in a result that is a view of it.
std::vector<bool> BuffersOfEagerSteps(const ProgramFunction& function) {
  std::vector<bool> found(function.buffer_bytes.size());
  for (const Step& step : function.steps) {
    if (!std::holds_alternative<EagerStep>(step)) continue;
    ForEachTensorNeeded(step, [&](uint32_t tensor) {
      const ProgramTensor& entry = function.tensors[tensor];
      if (entry.placement == Placement::kBuffer) found[entry.index] = true;
    });
  }
  return found;
}

// Sets what the backward takes from the forward: saved values, tangents and gradients.
void LinkFunctions(const ir::Graph& training, const PartitionedGraph& parts, Program* program) {
  ProgramFunction& forward = program->functions[0];
  for (uint32_t k = parts.returned; k < forward.outputs.size(); ++k) {
    forward.outputs[k].returned = false;
  }
  const std::vector<bool> eager = BuffersOfEagerSteps(forward);
  for (uint32_t i = 0; i < parts.saved.size(); ++i) {
    const uint32_t output = parts.saved[i];
    bool donated = parts.backward.inputs()[i].donated;
    if (donated) {
      // The memory of what an eager operator made or was given may be held by others.
      const ProgramTensor& tensor = forward.tensors[forward.outputs[output].index];
      donated = tensor.placement == Placement::kBuffer && !eager[tensor.index];
    }
    program->saved.push_back({output, i, donated});
    // The backward draws the same random numbers as the forward.
    if (forward.outputs[output].kind != ProgramOutput::Kind::kInput) continue;
    const ProgramInput& given = forward.inputs[forward.outputs[output].index];
    if (given.kind != ProgramInput::Kind::kTensor)
      program->functions[1].inputs[i].kind = given.kind;
  }
  const auto first_tangent = static_cast<uint32_t>(parts.saved.size());
  for (uint32_t i = 0; i < training.tangents.size(); ++i) {
    forward.outputs[training.tangents[i].output].requires_grad = true;
    program->tangents.push_back({training.tangents[i].output, first_tangent + i});
  }
  for (uint32_t i = 0; i < training.gradients.size(); ++i) {
    program->gradients.push_back({training.gradients[i].input, i});
  }
}

struct CompiledRecipe {
  absl::Status status;
  std::string name;
  Bytes bytes;
};

// By launch; equal launches share one recipe.
struct CompiledRecipes {
  std::vector<CompiledRecipe> recipes;
  std::vector<uint32_t> of_launch;
};

void CompileRecipe(const SynapseFunctions& functions, SynGraph& graph, const std::string& name,
                   CompiledRecipe* result) {
  absl::StatusOr<synRecipeHandle> handle = graph.Compile(name);
  if (!handle.ok()) {
    result->status = handle.status();
    return;
  }
  const RecipeHandle recipe(functions, *handle);
  absl::StatusOr<Bytes> bytes = SerializeRecipe(functions, recipe.get());
  result->status = bytes.status();
  if (bytes.ok()) result->bytes = *std::move(bytes);
}

// Compiles each recipe that differs, several at a time if there are several; if there is one, the
// library may use the threads. The name of a recipe is made from its content, so that equal recipes
// of two graphs have equal bytes.
absl::StatusOr<CompiledRecipes> CompileRecipes(const SynapseFunctions& functions,
                                               LoweredProgram& lowered,
                                               const CompileOptions& options, Progress& progress) {
  CompiledRecipes results;
  std::map<Digest, uint32_t> known;
  std::vector<SynGraph*> graphs;
  for (const LoweredRecipe& launch : lowered.recipes) {
    const Digest digest = launch.graph->ContentDigest();
    const auto [entry, is_new] = known.emplace(digest, static_cast<uint32_t>(graphs.size()));
    results.of_launch.push_back(entry->second);
    if (!is_new) continue;
    graphs.push_back(launch.graph.get());
    results.recipes.push_back({.status = {}, .name = ToHex(digest).substr(0, 8), .bytes = {}});
  }
  const size_t threads =
      std::max(options.threads != 0 ? options.threads : std::thread::hardware_concurrency(), 1U);
  const size_t at_once = std::clamp<size_t>(graphs.size(), 1, threads);
  ASSIGN_OR_RETURN(
      const ConfigurationLease lease,
      ConfigurationLease::Take(functions, {options.isa_level, options.visualization_dir,
                                           threads / at_once, options.disabled_recipe_passes}));
  std::atomic<size_t> done = 0;
  ParallelFor(graphs.size(), at_once, [&](size_t i) {
    CompiledRecipe& recipe = results.recipes[i];
    const std::string name = "recipe_" + recipe.name;
    CompileRecipe(functions, *graphs[i],
                  options.visualization_dir.empty() ? name : kDumpPrefix + name, &recipe);
    progress("recipe", ++done, graphs.size());
  });
  return results;
}

// Fills Program::recipes.
absl::Status Assemble(LoweredProgram& lowered, CompiledRecipes compiled, CompiledProgram* result) {
  Program& program = lowered.program;
  for (CompiledRecipe& recipe : compiled.recipes) {
    RETURN_IF_ERROR_AT(recipe.status, "recipe " + recipe.name);
    program.recipes.push_back({Sha256(recipe.bytes), recipe.bytes.size()});
    result->recipes.push_back(std::move(recipe.bytes));
  }
  for (size_t i = 0; i < lowered.recipes.size(); ++i) {
    const LoweredRecipe& launch = lowered.recipes[i];
    ProgramFunction& function = program.functions[launch.function];
    std::get<LaunchStep>(function.steps[launch.step]).recipe = compiled.of_launch[i];
  }
  RETURN_IF_ERROR_AT(ValidateProgram(program), "the program that was built");
  result->program = EncodeProgram(program);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Compiler>> Compiler::Create(const SynapseFunctions& functions) {
  const synStatus status = functions.synInitialize();
  // Another user of the library in this process may have initialised it.
  if (status != synSuccess && status != synAlreadyInitialized &&
      status != synObjectAlreadyInitialized) {
    return ToStatus(functions, status, "synInitialize");
  }
  return std::unique_ptr<Compiler>(new Compiler(functions));
}

absl::StatusOr<CompiledProgram> Compiler::Compile(std::span<const uint8_t> captured,
                                                  const CompileOptions& options) const {
  CompileStatistics statistics;
  absl::StatusOr<ir::Graph> graph = [&]() -> absl::StatusOr<ir::Graph> {
    const StageTimer timer("import", &statistics);
    const absl::StatusOr<CapturedGraph> decoded = DecodeGraph(captured);
    // The damage is not in our data: the request is bad.
    if (absl::IsDataLoss(decoded.status())) return InvalidArgument(decoded.status().message());
    RETURN_IF_ERROR(decoded.status());
    return ir::Import(*decoded);
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
  const std::optional<synDeviceType> device = DeviceTypeOf(options.device_kind);
  if (!device.has_value()) {
    return InvalidArgument("device kind \"", options.device_kind, "\" is not known; gaudi2 is one");
  }
  DeviceCheck check(functions_, *device, options.key.deterministic);
  const auto transform = [&](ir::Graph& part, PipelinePart passes) {
    return Transform(part, passes, check, options, progress, &result.statistics);
  };
  std::optional<PartitionedGraph> training;
  std::vector<Part> parts = {{"forward", &graph}};
  if (!graph.gradients.empty()) {
    RETURN_IF_ERROR_AT(transform(graph, PipelinePart::kToCanonical), context);
    const StageTimer timer("partition", &result.statistics);
    absl::StatusOr<PartitionedGraph> partitioned = Partition(graph);
    RETURN_IF_ERROR_AT(partitioned.status(), context);
    training = *std::move(partitioned);
    parts = {{"forward", &training->forward}, {"backward", &training->backward}};
  }
  const auto where = [&](const Part& part) {
    return training.has_value() ? context + ": " + part.name : context;
  };
  for (const Part& part : parts) {
    const auto passes = training.has_value() ? PipelinePart::kToLowerable : PipelinePart::kWhole;
    RETURN_IF_ERROR_AT(transform(*part.graph, passes), where(part));
  }

  LoweredProgram lowered;
  {
    const StageTimer timer("lower", &result.statistics);
    progress("lower", 0, 1);
    const LoweringOptions lowering{*device, options.key.deterministic, WeightsStay(graph),
                                   options.least_part_bytes};
    for (const Part& part : parts) {
      RETURN_IF_ERROR_AT(LowerGraph(*part.graph, functions_, lowering, part.name, &lowered),
                         where(part));
    }
    if (training.has_value()) LinkFunctions(graph, *training, &lowered.program);
  }
  {
    const StageTimer timer("recipes", &result.statistics);
    absl::StatusOr<CompiledRecipes> recipes =
        CompileRecipes(functions_, lowered, options, progress);
    RETURN_IF_ERROR_AT(recipes.status(), context);
    RETURN_IF_ERROR_AT(Assemble(lowered, *std::move(recipes), &result), context);
  }
  result.statistics.captured_nodes = lowered.program.functions[0].node_count;
  for (const ProgramFunction& function : lowered.program.functions) {
    result.statistics.eager_nodes += function.eager_node_count;
  }
  result.statistics.launches = static_cast<uint32_t>(lowered.recipes.size());
  return result;
}

}  // namespace hpu::compiler
