// The one symbol of libSynapseCompiler.so. libSynapse.so opens that library (from its own folder)
// when a graph is first checked, inferred or compiled, so that a client that only launches never
// maps LLVM. Both are built together with one toolchain, so C++ types may cross this border.
#pragma once

#include <cstdint>
#include <string>

#include "graph_compiler/compiler.h"

namespace hpu::graph_compiler {

// Raise this whenever this struct, GraphDesc, CompileOptions or Recipe changes.
inline constexpr uint32_t kCompilerDoorVersion = 3;

struct CompilerDoor {
  uint32_t version;  // kCompilerDoorVersion of the build that made the library
  absl::StatusOr<Recipe> (*compile_graph)(const GraphDesc& graph, const CompileOptions& options);
  absl::Status (*check_graph)(const GraphDesc& graph);
  absl::Status (*infer_shapes)(GraphDesc& graph);
  bool (*is_known_guid)(const std::string& guid);
};

inline constexpr char kCompilerLibraryName[] = "libSynapseCompiler.so";
inline constexpr char kCompilerDoorSymbol[] = "HpuEmulatorCompilerDoor";

}  // namespace hpu::graph_compiler

// Returns a struct with static lifetime.
extern "C" const hpu::graph_compiler::CompilerDoor* HpuEmulatorCompilerDoor();
