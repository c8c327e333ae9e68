// The eager ops of a program: ATen calls with their arguments, and views of their results.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "compiler_server/ir/graph.h"
#include "compiler_server/lowering/memory_plan.h"
#include "compiler_server/lowering/segment.h"
#include "program/program.h"

namespace hpu::compiler {

class EagerSteps {
 public:
  // Appends to function.steps. All arguments must outlive the object.
  EagerSteps(const SegmentPlan& plan, MemoryPlan& memory, ProgramFunction& function)
      : plan_(plan), memory_(memory), function_(function) {}

  // Adds an `aten` node as a step.
  absl::Status Add(const ir::Node& node);
  // Returns the program tensor for a region. Memory that an eager op allocated has no fixed strides
  // or address, so its regions are made by further eager views.
  uint32_t TensorFor(const Memory& memory);
  // Returns the program tensor of a value that a step of another kind than a recipe reads.
  absl::StatusOr<uint32_t> OperandTensor(ir::Value* value);

 private:
  absl::Status Resolve(const ir::Node& node, Argument* argument);
  uint32_t AddView(const std::string& op, const std::string& overload, std::vector<Argument> args,
                   const ir::TensorType& type);
  uint32_t AddAsStrided(uint32_t tensor, const ir::TensorType& type);

  const SegmentPlan& plan_;
  MemoryPlan& memory_;
  ProgramFunction& function_;
};

}  // namespace hpu::compiler
