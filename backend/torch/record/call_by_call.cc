#include "backend/torch/record/call_by_call.h"

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "backend/torch/device/allocator.h"
#include "backend/torch/device/pending_storage.h"
#include "backend/torch/eager/kernels.h"
#include "backend/torch/programs/call_line.h"
#include "backend/torch/programs/group_names.h"
#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {
namespace {

using c10::IValue;
using torch::jit::Stack;

bool IsCollective(const c10::OperatorHandle& op) {
  return op.schema().name().starts_with("_c10d_functional::");
}

// Recordings call groups as programs do.
void NameGroups(const c10::OperatorHandle& op, Stack* stack) {
  if (!IsCollective(op)) return;
  const std::vector<c10::Argument>& declared = op.schema().arguments();
  for (size_t i = 0; i < stack->size(); ++i) {
    IValue& value = (*stack)[i];
    if (IsGroup(declared[i]) && value.isString()) value = GroupInProcess(value.toStringRef());
  }
}

// A work of a functional collective is found by the storage of its result. It is awaited before the
// memory of that storage moves into the recording's.
void AwaitCollective(const c10::OperatorHandle& op, const std::vector<at::Tensor>& results) {
  if (!IsCollective(op)) return;
  static const c10::OperatorHandle wait =
      c10::Dispatcher::singleton().findSchemaOrThrow("_c10d_functional::wait_tensor", "");
  for (const at::Tensor& result : results) {
    Stack stack{result};
    wait.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::HPU), &stack);
  }
}

void RunCall(const Recording& recording, const Recording::Call& call) {
  const KnownLine line(call.line);
  const CallRule& rule = *call.rule;
  const double* number = recording.numbers().data() + call.first_number;
  Stack stack;
  {
    const std::vector<at::Tensor> tensors = recording.TensorsOf(call);
    for (const ArgumentTemplate& argument : rule.arguments) {
      stack.push_back(argument.Fill(tensors, number));
    }
  }
  NameGroups(rule.op, &stack);
  rule.op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::HPU), &stack);
  std::vector<at::Tensor> results;
  for (IValue& result : stack) {
    if (result.isTensor()) {
      results.push_back(std::move(result).toTensor());
    } else {
      for (const at::Tensor& item : result.toTensorVector()) results.push_back(item);
    }
  }
  stack.clear();
  AwaitCollective(rule.op, results);
  uint32_t value = call.first_result;
  for (size_t i = 0; i < rule.results.size(); ++i) {
    if (rule.results[i].kind != CallRule::Result::Kind::kNew) continue;
    const c10::Storage& storage = recording.values()[value++].storage;
    if (PendingOf(*storage.unsafeGetStorageImpl()) == nullptr) continue;
    at::Tensor result = std::move(results[i]);
    if (!result.defined()) {
      // The CPU's kernels leave out a gradient that nobody asked for, and shape functions do not.
      // No call reads it, but whoever holds the tensor needs memory.
      storage.set_data_ptr_noswap(GetDeviceAllocator().allocate(storage.nbytes()));
      continue;
    }
    // The CPU's norms, for one, give statistics of narrow inputs in another type.
    const TensorForm& form = rule.results[i].form;
    if (result.strides() != form.strides || result.scalar_type() != form.dtype) {
      at::Tensor copy = form.Over(NewStorage(storage.nbytes()), 0);
      copy.copy_(result);
      result = std::move(copy);
    }
    FillStorage(storage, std::move(result));
  }
}

}  // namespace

void FillStorage(const c10::Storage& pending, at::Tensor result) {
  c10::StorageImpl* source = result.storage().unsafeGetStorageImpl();
  const bool dense = result.is_non_overlapping_and_dense() && result.storage_offset() == 0 &&
                     result.nbytes() == pending.nbytes();
  if (dense && result.use_count() == 1 && result.storage().use_count() == 1) {
    pending.set_data_ptr_noswap(source->set_data_ptr(c10::DataPtr(nullptr, kHpuDevice)));
    return;
  }
  pending.set_data_ptr_noswap(GetDeviceAllocator().allocate(pending.nbytes()));
  const TensorForm form(result);
  form.Over(pending, 0).copy_(result);
}

void RunCallByCall(Recording& recording) {
  std::exception_ptr first;
  for (const Recording::Call& call : recording.calls()) {
    try {
      RunCall(recording, call);
    } catch (const std::exception& error) {
      if (first == nullptr) first = std::current_exception();
      recording.LoseResults(call, call.rule->op.schema().name() + " failed: " + error.what());
    }
  }
  if (first != nullptr) std::rethrow_exception(first);
}

std::unique_ptr<Recording> RunStateFills(Recording& recording, const std::vector<uint32_t>& calls) {
  for (const uint32_t place : calls) {
    const Recording::Call& call = recording.calls()[place];
    const c10::Storage& storage = recording.values()[recording.operand(call, 0).value].storage;
    storage.set_data_ptr_noswap(GetDeviceAllocator().allocate(storage.nbytes()));
    RunCall(recording, call);
  }
  return recording.Without(calls);
}

}  // namespace hpu::torch_backend
