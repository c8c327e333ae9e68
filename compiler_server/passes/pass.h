// What every pass gets, and the one door through which passes run.
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
  // OK if a recipe can hold the node; else why not. Default: the op has a guid and its types are
  // those of the device (AcceptByTable).
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
  std::string dump_dir = {};  // text and DOT after every pass that changed something; "" = none
  std::function<void(std::string_view pass, size_t done, size_t total)> progress = {};
  std::vector<PassTiming>* timings = nullptr;
};

// In order. Errors carry the pass's name; after an error the graph is not to be used.
absl::Status RunPasses(ir::Graph& graph, std::span<const Pass> passes, const PassContext& context,
                       const PassOptions& options = {});

// INVALID_ARGUMENT, with the names that there are, if one is no pass.
absl::Status CheckPassNames(std::span<const Pass> passes, const std::set<std::string>& names);

absl::Status AcceptByTable(const ir::Node& node);

}  // namespace hpu::compiler
