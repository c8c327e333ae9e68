// The compiler takes a captured graph and returns a program and its recipes. It knows neither gRPC
// nor the store.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "compiler_server/ir/graph.h"
#include "compiler_server/lowering/parts.h"
#include "proto/options_generated.h"
#include "synapse/loader.h"

namespace hpu::compiler {

struct CompileOptions {
  std::string device_kind = "gaudi2";  // synapse/device_kind.h
  std::string isa_level;               // emulator only: "x86-64-v3"; empty = this host's
  KeyOptions key;                      // proto/options.yaml
  std::set<std::string> disabled_passes;
  // emulator only: passes of its graph compiler, separated by commas.
  std::string disabled_recipe_passes;
  std::string visualization_dir;  // dumps of every stage; empty = none
  unsigned threads = 0;           // threads that compile at the same time; 0 = one per CPU
  // of each part of a function that is cut (lowering/parts.h).
  int64_t least_part_bytes = kLeastPartBytes;
  // `stage` is "import", a pass name, "lower" or "recipe". Two threads never call it at once.
  std::function<void(std::string_view stage, uint32_t done, uint32_t total)> progress;
};

struct CompileStatistics {
  struct Stage {
    std::string name;
    std::chrono::microseconds time{};
  };
  std::vector<Stage> stages;  // import, passes in order, lower, recipes
  uint32_t captured_nodes = 0;
  uint32_t eager_nodes = 0;
  uint32_t launches = 0;  // recipe launches per call; equal recipes are stored once
};

struct CompiledProgram {
  Bytes program;               // container, program/program.h
  std::vector<Bytes> recipes;  // serialised, in the order of Program::recipes
  CompileStatistics statistics;
};

// Thread-safe. Compilations with a different isa_level, visualization_dir, threads or
// disabled_recipe_passes wait for each other, because the Synapse library is configured for the
// whole process.
class Compiler {
 public:
  // Starts the library; no device is needed. `functions` must outlive the compiler.
  static absl::StatusOr<std::unique_ptr<Compiler>> Create(const SynapseFunctions& functions);

  // `captured` is the container of a captured graph. Returns UNIMPLEMENTED for something that
  // neither recipes nor eager steps can express, and INVALID_ARGUMENT for a malformed graph or
  // option.
  absl::StatusOr<CompiledProgram> Compile(std::span<const uint8_t> captured,
                                          const CompileOptions& options) const;
  // Compiles a graph in any form: imported, or parsed from text.
  absl::StatusOr<CompiledProgram> Compile(ir::Graph graph, const CompileOptions& options) const;

 private:
  explicit Compiler(const SynapseFunctions& functions) : functions_(functions) {}
  absl::StatusOr<CompiledProgram> Run(ir::Graph graph, const CompileOptions& options,
                                      CompileStatistics statistics) const;

  const SynapseFunctions& functions_;
};

}  // namespace hpu::compiler
