// Operators that write to arguments although their schemas do not say so: running statistics.
//
// This is the only list of them. Eager operators read it here (cpu_call), and capture reads it
// through Python (recorder.py). tests/python/ops/test_undeclared_writes.py looks for operators that
// are missing here.
#pragma once

#include <ATen/ATen.h>

#include <span>

#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {

struct UndeclaredWrites {
  const char* op;
  const char* arguments[2];
  const char* condition;  // the argument that says whether it writes; nullptr: it always does
};

std::span<const UndeclaredWrites> AllUndeclaredWrites();

// Returns whether a call writes to its argument number `argument` without declaring it.
bool WritesUndeclared(const c10::FunctionSchema& schema, size_t argument,
                      c10::ArrayRef<c10::IValue> arguments);

}  // namespace hpu::torch_backend
