// The emulator's graph compiler: GraphDesc in, Recipe out. The only door to LLVM; lives in its own
// shared object (libSynapseCompiler.so) that libSynapse.so opens when the first graph is compiled.
#pragma once

#include "base/status.h"
#include "synapse/emulator/graph_compiler/graph_desc.h"
#include "synapse/emulator/recipe/recipe.h"

namespace hpu::emulator {

struct CompileOptions {
  IsaLevel isa = IsaLevel::kV3;  // code must run on every CPU of this level
  bool deterministic = false;    // results never depend on thread count anyway; also no FMA reorder
  std::string dump_dir;          // GRAPH_VISUALIZATION: writes stages as text and DOT; empty = off
};

// UNIMPLEMENTED: unknown guid or a type/shape that no kernel covers; message names node and guid.
// INVALID_ARGUMENT: shapes or params that do not fit. Thread-safe, deterministic: equal input gives
// equal bytes.
absl::StatusOr<Recipe> CompileGraph(const GraphDesc& graph, const CompileOptions& options);

// Fills output sizes that are not known from inputs and params (synGraphInferShapes).
absl::Status InferShapes(GraphDesc& graph);

// Status of a guid for synNodeCreate: false = unknown.
bool IsKnownGuid(const std::string& guid);

}  // namespace hpu::emulator
