// The options of a compilation: those that its result depends on, and those that must not change
// the result.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "recipe/isa.h"

namespace hpu::graph_compiler {

#ifdef NDEBUG
inline constexpr bool kVerifyByDefault = false;
#else
inline constexpr bool kVerifyByDefault = true;
#endif

struct CompileOptions {
  IsaLevel isa = IsaLevel::kV3;  // code must run on every CPU of this level
  // Compiles as if every node asked for deterministic results (NodeDesc::deterministic).
  bool deterministic = false;
  std::string dump_dir;  // GRAPH_VISUALIZATION: the folder for stages as text and DOT; empty = off
  std::set<std::string> disabled_passes;  // names of optional passes (pipeline.cc) to leave out
  bool verify = kVerifyByDefault;         // verifies the graph after every pass
  // The number of threads that generate code; 0 means as many as the machine has. The bytes do not
  // depend on it.
  uint32_t threads = 0;
};

}  // namespace hpu::graph_compiler
