#include "compiler_server/passes/pass.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "compiler_server/ir/text.h"
#include "compiler_server/ir/verify.h"

namespace hpu::compiler {
namespace {

constexpr int64_t kMaxDumpedConstantBytes = 64;

// Writes the graph after each pass that changed it.
class Dumper {
 public:
  Dumper(const std::string& dir, const ir::Graph& graph) : dir_(dir), name_(graph.name()) {}

  absl::Status Dump(const ir::Graph& graph, std::string_view stage) {
    if (dir_.empty()) return absl::OkStatus();
    const ir::PrintOptions options{.sources = true, .max_constant_bytes = kMaxDumpedConstantBytes};
    std::string text = ir::Print(graph, options);
    const size_t index = index_++;
    if (text == last_) return absl::OkStatus();
    last_ = std::move(text);
    std::error_code error;
    std::filesystem::create_directories(dir_, error);
    const std::string number = (index < 10 ? "0" : "") + std::to_string(index);
    const std::string stem = dir_ + "/" + name_ + "." + number + "-" + std::string(stage);
    RETURN_IF_ERROR(Write(stem + ".hir", last_));
    return Write(stem + ".dot", ir::PrintDot(graph));
  }

 private:
  static absl::Status Write(const std::string& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary);
    file << text;
    file.close();
    if (file) return absl::OkStatus();
    return Error(absl::StatusCode::kUnavailable, "cannot write the graph dump ", path);
  }

  const std::string& dir_;
  std::string name_;
  std::string last_;
  size_t index_ = 0;
};

}  // namespace

absl::Status CheckPassNames(std::span<const Pass> passes, const std::set<std::string>& names) {
  for (const std::string& name : names) {
    const bool known = std::any_of(passes.begin(), passes.end(),
                                   [&](const Pass& pass) { return pass.name == name; });
    if (known) continue;
    std::string all;
    for (const Pass& pass : passes) {
      if (all.find(pass.name) == std::string::npos) all += " " + std::string(pass.name);
    }
    return InvalidArgument("no pass is named '", name, "'; there are", all);
  }
  return absl::OkStatus();
}

absl::Status AcceptByTable(const ir::Node& node) {
  const ir::OpTraits& traits = ir::Traits(node.op);
  if (traits.guid.empty()) return Unimplemented("no Synapse node does ", traits.name);
  for (const auto* values : {&node.operands, &node.results}) {
    for (const ir::Value* value : *values) {
      if (value != nullptr && !ir::DeviceHolds(value->type.dtype)) {
        return Unimplemented("the device has no ", DTypeName(value->type.dtype));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status RunPasses(ir::Graph& graph, std::span<const Pass> passes, const PassContext& context,
                       const PassOptions& options) {
  RETURN_IF_ERROR(CheckPassNames(passes, options.disabled));
  PassContext with_default = context;
  if (!with_default.accept) with_default.accept = AcceptByTable;
  Dumper dumper(options.dump_dir, graph);
  RETURN_IF_ERROR(dumper.Dump(graph, "import"));
  for (size_t i = 0; i < passes.size(); ++i) {
    const Pass& pass = passes[i];
    if (options.progress) options.progress(pass.name, i, passes.size());
    if (options.disabled.count(std::string(pass.name)) > 0) continue;
    const std::string where = "pass " + std::string(pass.name);
    const auto start = std::chrono::steady_clock::now();
    RETURN_IF_ERROR_AT(pass.run(graph, with_default), where);
    const auto time = std::chrono::steady_clock::now() - start;
    if (options.timings != nullptr) {
      options.timings->push_back({pass.name, time, graph.nodes().size()});
    }
    if (options.verify) {
      const absl::Status sound = ir::Verify(graph);
      if (!sound.ok()) return Internal("pass ", pass.name, " left a bad graph: ", sound.message());
    }
    RETURN_IF_ERROR(dumper.Dump(graph, pass.name));
  }
  return absl::OkStatus();
}

}  // namespace hpu::compiler
