// hpu_opt reads text IR, runs passes and prints text IR. It is for tests, bug reports and
// curiosity.
//
//   hpu_opt graph.hir --passes simplify,canonicalize
//   hpu_opt graph.hir --pipeline --evaluate          # same numbers before and after?
//   hpu_opt captured.graph --captured --pipeline --time-passes
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "compiler_server/ir/import.h"
#include "compiler_server/ir/interpreter.h"
#include "compiler_server/ir/text.h"
#include "compiler_server/passes/pipeline.h"
#include "graph/captured_graph.h"

namespace hpu::compiler {
namespace {

struct Options {
  std::string input = "-";
  std::string passes;
  bool pipeline = false;
  bool captured = false;
  bool evaluate = false;
  bool values = false;
  std::string inputs;
  uint64_t seed = 1;
  double tolerance = 1e-5;
  bool time_passes = false;
  std::string dump_dir;
  std::vector<std::string> disable;
  bool json = false;
  bool dot = false;
  bool quiet = false;
};

absl::StatusOr<std::string> ReadAll(const std::string& path) {
  if (path == "-") {
    return std::string(std::istreambuf_iterator<char>(std::cin), {});
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("cannot read ", path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

absl::StatusOr<ir::Graph> Load(const Options& options) {
  ASSIGN_OR_RETURN(const std::string text, ReadAll(options.input));
  if (!options.captured) return ir::Parse(text);
  ASSIGN_OR_RETURN(const CapturedGraph captured,
                   DecodeGraph({reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
  return ir::Import(captured);
}

absl::StatusOr<std::vector<Pass>> SelectPasses(const Options& options) {
  if (options.pipeline) return std::vector<Pass>(Pipeline().begin(), Pipeline().end());
  std::vector<Pass> passes;
  for (const std::string& name : CLI::detail::split(options.passes, ',')) {
    if (name.empty()) continue;
    const Pass* pass = FindPass(name);
    if (pass == nullptr) return InvalidArgument("no pass is named '", name, "'");
    passes.push_back(*pass);
  }
  return passes;
}

// JSON has no infinities and NaNs, so these are written as text.
nlohmann::json ToJson(const ir::HostTensor& tensor) {
  nlohmann::json data = nlohmann::json::array();
  for (double value : tensor.data) {
    if (std::isfinite(value)) {
      data.push_back(value);
    } else {
      data.push_back(std::to_string(value));
    }
  }
  return {{"dtype", DTypeName(tensor.dtype)}, {"sizes", tensor.sizes}, {"data", std::move(data)}};
}

nlohmann::json ToJson(const std::vector<ir::HostTensor>& tensors) {
  nlohmann::json list = nlohmann::json::array();
  for (const ir::HostTensor& tensor : tensors) list.push_back(ToJson(tensor));
  return list;
}

// Reads a JSON list that holds a list of elements per tensor input. A value that JSON cannot
// express is text ("inf", "nan").
absl::StatusOr<std::vector<ir::HostTensor>> ReadInputs(const std::string& path,
                                                       const ir::Graph& graph) {
  ASSIGN_OR_RETURN(const std::string text, ReadAll(path));
  const nlohmann::json lists = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  std::vector<ir::HostTensor> inputs;
  for (const ir::Input& input : graph.inputs()) {
    if (input.value == nullptr) continue;
    const ir::TensorType& type = input.value->type;
    ir::HostTensor tensor = ir::MakeHostTensor(type.dtype, type.sizes);
    const nlohmann::json* list =
        lists.is_array() && inputs.size() < lists.size() ? &lists[inputs.size()] : nullptr;
    if (list == nullptr || !list->is_array() || list->size() != tensor.data.size()) {
      return InvalidArgument(path, " has no list of ", tensor.data.size(), " elements for input %",
                             input.name);
    }
    for (size_t i = 0; i < tensor.data.size(); ++i) {
      const nlohmann::json& element = (*list)[i];
      if (!element.is_number() && !element.is_string()) {
        return InvalidArgument(path, ": element ", i, " of input %", input.name, " is no number");
      }
      tensor.data[i] = element.is_number()
                           ? element.get<double>()
                           : std::strtod(element.get<std::string>().c_str(), nullptr);
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

// Returns the largest difference between the two runs, over outputs and mutated inputs.
absl::StatusOr<double> Compare(const ir::RunResult& before, const ir::RunResult& after) {
  if (before.outputs.size() != after.outputs.size()) return Internal("number of outputs changed");
  double largest = 0;
  for (size_t i = 0; i < before.outputs.size(); ++i) {
    largest = std::max(largest, ir::Difference(before.outputs[i], after.outputs[i]));
  }
  for (size_t i = 0; i < before.inputs.size(); ++i) {
    largest = std::max(largest, ir::Difference(before.inputs[i], after.inputs[i]));
  }
  return largest;
}

// The interpreter cannot run a captured graph before decompose; then there is nothing to compare
// with.
std::optional<ir::RunResult> RunBefore(const ir::Graph& graph,
                                       const std::vector<ir::HostTensor>& inputs) {
  auto run = ir::Interpret(graph, inputs);
  return run.ok() ? std::optional(*std::move(run)) : std::nullopt;
}

absl::Status Evaluate(const Options& options, const ir::Graph& graph,
                      const std::vector<ir::HostTensor>& inputs,
                      const std::optional<ir::RunResult>& before, nlohmann::json& report) {
  ASSIGN_OR_RETURN(const ir::RunResult after, ir::Interpret(graph, inputs));
  if (options.values) {
    report["outputs"] = ToJson(after.outputs);
    report["inputs"] = ToJson(inputs);
    report["inputs_after"] = ToJson(after.inputs);
  }
  if (!before) return absl::OkStatus();
  ASSIGN_OR_RETURN(const double difference, Compare(*before, after));
  report["difference"] = difference;
  if (!options.json) std::fprintf(stderr, "largest difference %g\n", difference);
  if (difference <= options.tolerance) return absl::OkStatus();
  return Internal("the passes changed the result: difference ", difference);
}

void ReportTimes(const Options& options, const std::vector<PassTiming>& timings,
                 nlohmann::json& report) {
  report["passes"] = nlohmann::json::array();
  for (const PassTiming& timing : timings) {
    const double microseconds = static_cast<double>(timing.time.count()) / 1000;
    report["passes"].push_back(
        {{"name", timing.pass}, {"microseconds", microseconds}, {"nodes", timing.nodes}});
    if (!options.time_passes || options.json) continue;
    std::fprintf(stderr, "%-14s %9.1f us %6zu nodes\n", std::string(timing.pass).c_str(),
                 microseconds, timing.nodes);
  }
}

absl::Status Run(const Options& options) {
  ASSIGN_OR_RETURN(ir::Graph graph, Load(options));
  ASSIGN_OR_RETURN(const std::vector<Pass> passes, SelectPasses(options));
  std::vector<ir::HostTensor> inputs;
  if (options.evaluate) inputs = ir::RandomInputs(graph, options.seed);
  if (!options.inputs.empty()) {
    ASSIGN_OR_RETURN(inputs, ReadInputs(options.inputs, graph));
  }
  const auto before = options.evaluate && !passes.empty() ? RunBefore(graph, inputs) : std::nullopt;
  std::vector<PassTiming> timings;
  PassOptions pass_options;
  pass_options.disabled = {options.disable.begin(), options.disable.end()};
  pass_options.dump_dir = options.dump_dir;
  pass_options.timings = &timings;
  RETURN_IF_ERROR(RunPasses(graph, passes, {}, pass_options));

  const std::string text = options.dot ? ir::PrintDot(graph) : ir::Print(graph);
  nlohmann::json report;
  report["graph"] = text;
  if (!options.json && !options.quiet) std::cout << text << std::flush;
  ReportTimes(options, timings, report);
  if (options.evaluate) RETURN_IF_ERROR(Evaluate(options, graph, inputs, before, report));
  if (options.json) std::cout << report.dump(1) << "\n";
  return absl::OkStatus();
}

}  // namespace
}  // namespace hpu::compiler

int main(int argc, char** argv) {
  hpu::compiler::Options options;
  CLI::App app{"Runs compiler passes on text IR and prints the result."};
  app.add_option("input", options.input, "text IR; - is standard input")->capture_default_str();
  app.add_option("--passes", options.passes, "comma separated names, in order");
  app.add_flag("--pipeline", options.pipeline, "all passes, as the compile server runs them");
  app.add_flag("--captured", options.captured,
               "the input is a captured graph (graph/captured_graph.h)");
  app.add_flag("--evaluate", options.evaluate,
               "run input and output graph in the reference interpreter and compare");
  app.add_option("--seed", options.seed, "of the random inputs")->capture_default_str();
  app.add_option("--inputs", options.inputs,
                 "JSON file: per tensor input a list of its elements, row-major");
  app.add_option("--tolerance", options.tolerance, "largest difference")->capture_default_str();
  app.add_flag("--values", options.values,
               "with --evaluate --json: inputs before and after, outputs");
  app.add_flag("--time-passes", options.time_passes, "time and node count of each pass");
  app.add_option("--dump-dir", options.dump_dir, "text and DOT after each pass that changed it");
  app.add_option("--disable", options.disable, "pass to skip (repeatable)");
  app.add_flag("--json", options.json, "one JSON object instead of text");
  app.add_flag("--dot", options.dot, "print Graphviz instead of text IR");
  app.add_flag("--quiet", options.quiet, "do not print the graph");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = hpu::compiler::Run(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "hpu_opt: %s\n", hpu::ToText(status).c_str());
  return 1;
}
