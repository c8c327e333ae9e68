// What a compilation depends on beside its graph, and what it must not depend on.
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
  bool deterministic = false;    // as if every node asked for it (NodeDesc::deterministic)
  std::string dump_dir;          // GRAPH_VISUALIZATION: writes stages as text and DOT; empty = off
  std::set<std::string> disabled_passes;  // names of optional passes (pipeline.cc) to leave out
  bool verify = kVerifyByDefault;         // the graph after every pass
  // Threads that generate code; 0 = as many as the machine has. The bytes do not depend on it.
  uint32_t threads = 0;
};

}  // namespace hpu::graph_compiler
