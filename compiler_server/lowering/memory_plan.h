// Decides where the values of a graph are while its program runs: the tensors, buffers and
// constants of the Program, and which of them is the home of which value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "compiler_server/ir/graph.h"
#include "compiler_server/lowering/segment.h"
#include "program/program.h"

namespace hpu::compiler {

// Constants up to this size are put into recipes; the program carries larger ones. (Synapse accepts
// at most 1 MiB outside const sections.)
inline constexpr int64_t kMaxRecipeConstantBytes = 64 * 1024;

// A region of memory. For Placement::kEager, `index` is the program tensor.
struct Memory {
  Placement placement = Placement::kBuffer;
  uint32_t index = 0;
  ir::View view;  // offset from the first element of input, buffer, constant or eager tensor
};

class MemoryPlan {
 public:
  // `function` receives buffers and tensors, and `program` receives constants. All arguments must
  // outlive the plan.
  MemoryPlan(const ir::Graph& graph, const SegmentPlan& plan, Program& program,
             ProgramFunction& function);

  // The memory of a value that exists between steps: an input, a constant, the result of a step of
  // another kind, or a result of a recipe that is returned or read by another step. Returns nullopt
  // for a value that exists only inside one recipe.
  std::optional<Memory> HomeOf(const ir::Value& value);
  // Memory of storage k.
  Memory StorageMemory(uint32_t storage);
  Memory InputMemory(uint32_t input) const;

  // Returns the program tensor for a region. Equal regions give equal tensors.
  uint32_t Tensor(Placement placement, uint32_t index, const TensorSpec& spec);
  uint32_t NewEagerTensor(const ir::TensorType& type);

 private:
  void FindStepHomes(const SegmentPlan& plan, const ir::Node& node);
  void WriteIntoCollectives(const SegmentPlan& plan);
  void FindHomes(const SegmentPlan& plan);
  uint32_t NewBuffer(const ir::TensorType& type);
  uint32_t ConstantIndex(const ir::Value& value);

  const ir::Graph& graph_;
  Program& program_;
  ProgramFunction& function_;
  std::vector<std::optional<Memory>> homes_;  // by value id
  std::vector<Memory> storages_;
  using Region = std::tuple<Placement, uint32_t, DType, std::vector<int64_t>, std::vector<int64_t>,
                            int64_t>;   // what contains it, then the fields of the spec
  std::map<Region, uint32_t> tensors_;  // by region
};

// The spec of a region, including its offset.
TensorSpec SpecOf(const ir::View& view);

}  // namespace hpu::compiler
