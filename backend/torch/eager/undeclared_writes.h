// Operators that write to arguments of which their schemas say nothing: running statistics.
//
// The one list of them. Eager operators take it here (cpu_call), capture takes it through Python
// (recorder.py). tests/python/ops/test_undeclared_writes.py looks for operators that it lacks.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <span>

namespace hpu::torch_backend {

struct UndeclaredWrites {
  const char* op;
  const char* arguments[2];
  const char* condition;  // the argument that says whether it does; nullptr: it always does
};

std::span<const UndeclaredWrites> AllUndeclaredWrites();

// Whether a call writes to its argument number `argument` without saying so.
bool WritesUndeclared(const c10::FunctionSchema& schema, size_t argument,
                      c10::ArrayRef<c10::IValue> arguments);

}  // namespace hpu::torch_backend
