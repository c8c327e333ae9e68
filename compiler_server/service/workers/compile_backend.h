// CompileBackend is the interface of the service to a compiler. It runs in a worker process, one
// request at a time. The product's backend is bin/compiler_backend.h; tests have one that is fast,
// slow or crashes on demand.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

namespace hpu::server {

struct CompileInput {
  std::string graph;  // the container of a captured graph, which nobody has decoded yet
  std::vector<std::pair<std::string, std::string>> options;
  std::string device_kind;
  std::string isa_level;
  unsigned threads = 1;  // that may compile at the same time; they do not change the result
};

struct CompileOutput {
  Bytes program;               // program/program.h container
  std::vector<Bytes> recipes;  // in the order of Program::recipes
};

struct CompileProgress {
  std::string stage;  // "pass fuse-elementwise", "recipe 2/3"
  uint32_t done = 0;
  uint32_t total = 0;

  bool operator==(const CompileProgress&) const = default;
};
using ProgressFunction = std::function<void(const CompileProgress&)>;

class CompileBackend {
 public:
  virtual ~CompileBackend() = default;
  // UNIMPLEMENTED and INVALID_ARGUMENT must be verdicts about the input alone, because they are
  // remembered.
  virtual absl::StatusOr<CompileOutput> Compile(const CompileInput& input,
                                                const ProgressFunction& progress) = 0;
};

using BackendFactory = std::function<absl::StatusOr<std::unique_ptr<CompileBackend>>()>;

}  // namespace hpu::server
