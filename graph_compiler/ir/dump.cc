#include "graph_compiler/ir/dump.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/log.h"

namespace hpu::graph_compiler {
namespace {

std::string FileName(const std::string& graph_name) {
  std::string name = graph_name.empty() ? "graph" : graph_name;
  for (char& c : name) {
    if (c == '/') c = '_';
  }
  return name;
}

}  // namespace

Dump::Dump(const std::string& directory, const std::string& graph_name) {
  if (directory.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  prefix_ = directory + "/" + FileName(graph_name);
}

void Dump::WriteText(const std::string& stage, const std::string& text,
                     const std::string& extension) const {
  if (!enabled()) return;
  const std::string path = prefix_ + "-" + stage + "." + extension;
  std::ofstream file(path);
  file << text;
  if (!file) HPU_LOG(kWarning, "graph dump failed file=" << path);
}

void Dump::Write(const std::string& stage, const LoopGraph& graph) const {
  if (enabled()) WriteText(stage, ToText(graph));
}

void Dump::Write(const std::string& stage, const Recipe& recipe) const {
  if (!enabled()) return;
  std::ostringstream text;
  std::ostringstream dot;
  text << "workspace " << recipe.workspace_bytes << " constants " << recipe.constants.size()
       << " code " << recipe.code.size() << " packed " << recipe.packed.size() << " prologue "
       << recipe.prologue << " kept " << recipe.kept_bytes << '\n';
  dot << "digraph recipe {\n";
  for (size_t k = 0; k < recipe.kernels.size(); ++k) {
    const KernelLaunch& launch = recipe.kernels[k];
    text << "kernel " << k;
    if (launch.custom == KernelLaunch::kOwnCode) {
      text << " entry " << launch.entry;
    } else {
      const CustomKernel& custom = recipe.custom_kernels[launch.custom];
      text << " custom " << custom.guid << " version " << custom.version;
    }
    text << " tasks " << launch.tasks << " grain " << launch.grain << " scratch "
         << launch.scratch_bytes << ' ' << launch.name << '\n';
    dot << "  k" << k << " [label=\"" << launch.name << "\"];\n";
    if (k > 0) dot << "  k" << k - 1 << " -> k" << k << ";\n";
    for (const OperandRef& ref : launch.operands) {
      text << "  " << KindName(ref.kind) << ' ' << ref.index << " + " << ref.offset << '\n';
    }
  }
  dot << "}\n";
  WriteText(stage, text.str());
  WriteText(stage, dot.str(), "dot");
}

}  // namespace hpu::graph_compiler
