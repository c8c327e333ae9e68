// Makes captured graphs (graph/captured_graph.h) from calls of PyTorch's operators: arguments are
// brought into schema order with the schema's defaults, and writes are read from the schema's alias
// annotations.
#pragma once

#include "backend/torch/pytorch/unstable_torch.h"
#include "graph/argument.h"
#include "graph/op_schema.h"

namespace hpu::torch_backend {

// These throw c10::ValueError for a value that no captured graph can hold.
Argument ToArgument(const c10::IValue& value, const c10::TypePtr& declared);
OpSchema ToOpSchema(const c10::FunctionSchema& schema);

// Adds GraphBuilder, its Value, and element_types().
void BindGraphBuilder(pybind11::module_& module);

}  // namespace hpu::torch_backend
