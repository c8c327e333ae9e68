// The emulator's graph compiler takes a GraphDesc and returns a Recipe. This is the only way to
// LLVM. It lives in a shared object of its own (libSynapseCompiler.so), which libSynapse.so opens
// when the first graph is compiled.
#pragma once

#include "base/status.h"
#include "graph_compiler/ir/compile_options.h"
#include "graph_compiler/ir/graph_desc.h"
#include "recipe/recipe.h"

namespace hpu::graph_compiler {

// Returns UNIMPLEMENTED for an unknown guid or for a type or shape that no kernel covers; the
// message names node and guid. Returns INVALID_ARGUMENT for shapes or params that do not fit.
// Thread-safe and deterministic: equal input gives equal bytes.
absl::StatusOr<Recipe> CompileGraph(const GraphDesc& graph, const CompileOptions& options);

// Returns whether CompileGraph accepts the graph, without generating code: OK, or the error that it
// would return. The functions of the guid table (import/guid_table.h) check the limits of kernels,
// so a graph that can be imported can be compiled.
absl::Status CheckGraph(const GraphDesc& graph);

// Fills in the output sizes that are not known yet from inputs and params (synGraphInferShapes).
absl::Status InferShapes(GraphDesc& graph);

// Returns whether the guid exists, for synNodeCreate.
bool IsKnownGuid(const std::string& guid);

}  // namespace hpu::graph_compiler
