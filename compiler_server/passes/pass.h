// This header defines the context that every pass receives, and the one function that runs passes.
#pragma once

#include <chrono>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "compiler_server/ir/graph.h"

namespace hpu::compiler {

struct PassContext {
  // Returns OK if a recipe can hold the node, and otherwise the reason why not. By default the op
  // needs a guid, and its types must be those of the device (AcceptByTable).
  std::function<absl::Status(const ir::Node&)> accept;
};

using PassFunction = absl::Status (*)(ir::Graph& graph, const PassContext& context);

struct Pass {
  std::string_view name;  // "decompose"
  PassFunction run;
};

struct PassTiming {
  std::string_view pass;
  std::chrono::nanoseconds time{};
  size_t nodes = 0;  // after the pass
};

struct PassOptions {
  std::set<std::string> disabled = {};  // names of passes to skip; unknown names are refused
  bool verify = true;                   // after every pass
  std::string dump_dir = {};  // text and DOT after every pass that changed the graph; "" = none
  std::function<void(std::string_view pass, size_t done, size_t total)> progress = {};
  std::vector<PassTiming>* timings = nullptr;
};

// Runs the passes in order. Errors carry the name of the pass; after an error the graph must not be
// used.
absl::Status RunPasses(ir::Graph& graph, std::span<const Pass> passes, const PassContext& context,
                       const PassOptions& options = {});

// Returns INVALID_ARGUMENT, with the existing names, if one of the names is no pass.
absl::Status CheckPassNames(std::span<const Pass> passes, const std::set<std::string>& names);

absl::Status AcceptByTable(const ir::Node& node);

}  // namespace hpu::compiler
