// Operators that write to arguments although their schemas do not say so: running statistics.
//
// This is the only list of them. Eager operators read it here (cpu_call), and capture reads it
// through Python (recorder.py). tests/python/ops/test_undeclared_writes.py looks for operators that
// are missing here.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <span>

#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {

struct UndeclaredWrites {
  const char* op;
  const char* arguments[2];
  const char* condition;  // the argument that says whether it writes; nullptr: it always does
};

std::span<const UndeclaredWrites> AllUndeclaredWrites();

// When the calls of an operator write to one of its arguments without declaring it.
struct UndeclaredWrite {
  bool happens = false;             // in some calls, at least
  std::optional<size_t> condition;  // the argument that says in which; without one, in all

  bool In(c10::ArrayRef<c10::IValue> arguments) const {
    return happens && (!condition.has_value() || arguments[*condition].toBool());
  }
};

UndeclaredWrite UndeclaredWriteOf(const c10::FunctionSchema& schema, size_t argument);

}  // namespace hpu::torch_backend
