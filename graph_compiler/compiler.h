// The emulator's graph compiler: GraphDesc in, Recipe out. The only door to LLVM; lives in its own
// shared object (libSynapseCompiler.so) that libSynapse.so opens when the first graph is compiled.
#pragma once

#include "base/status.h"
#include "graph_compiler/ir/compile_options.h"
#include "graph_compiler/ir/graph_desc.h"
#include "recipe/recipe.h"

namespace hpu::graph_compiler {

// UNIMPLEMENTED: unknown guid or a type/shape that no kernel covers; message names node and guid.
// INVALID_ARGUMENT: shapes or params that do not fit. Thread-safe, deterministic: equal input gives
// equal bytes.
absl::StatusOr<Recipe> CompileGraph(const GraphDesc& graph, const CompileOptions& options);

// Whether CompileGraph takes the graph, found without generating code: OK, or the error that it
// would answer. The limits of kernels are kept by the functions of the guid table
// (import/guid_table.h), so a graph that can be imported can be compiled.
absl::Status CheckGraph(const GraphDesc& graph);

// Fills output sizes that are not known from inputs and params (synGraphInferShapes).
absl::Status InferShapes(GraphDesc& graph);

// Status of a guid for synNodeCreate: false = unknown.
bool IsKnownGuid(const std::string& guid);

}  // namespace hpu::graph_compiler
