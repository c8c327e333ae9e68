#include "backend/torch/distributed/recorded_collectives.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "backend/torch/device/run_now.h"
#include "backend/torch/distributed/hccl_call.h"
#include "backend/torch/eager/cpu_call.h"
#include "backend/torch/programs/group_names.h"
#include "backend/torch/record/call_rule.h"
#include "backend/torch/record/recorder.h"

namespace hpu::torch_backend {
namespace {

using c10::IValue;
using c10d::OpType;
using torch::jit::Stack;
using Tensors = RecordedCollectives::Tensors;

std::atomic<bool> in_lazy_mode{false};

// A work of a recording: nothing is left to wait for.
class RecordedWork final : public c10d::Work {
 public:
  RecordedWork(int rank, OpType type, const char* name, Tensors outputs)
      : Work(rank, type, name),
        outputs_(std::move(outputs)),
        // Without a device, because an event of a stream would end its recording.
        future_(c10::make_intrusive<c10::ivalue::Future>(
            c10::ListType::create(c10::TensorType::get()))) {
    future_->markCompleted(IValue(outputs_));
  }

  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
  std::vector<at::Tensor> result() override { return outputs_; }
  void synchronize() override {}
  bool wait(std::chrono::milliseconds /*timeout*/) override { return true; }
  void blockCurrentStream() override {}
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

 private:
  const Tensors outputs_;
  const c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// An operator of _c10d_functional and what is known of its calls.
struct Functional {
  explicit Functional(const char* name)
      : op(c10::Dispatcher::singleton().findSchemaOrThrow(
            (std::string("_c10d_functional::") + name).c_str(), "")),
        rules(op.schema()) {}

  static Functional& Find(const char* name) {
    static auto* mutex = new std::mutex;
    static auto* all = new std::map<std::string, std::unique_ptr<Functional>>;
    const std::lock_guard lock(*mutex);
    std::unique_ptr<Functional>& found = (*all)[name];
    if (found == nullptr) found = std::make_unique<Functional>(name);
    return *found;
  }

  const c10::OperatorHandle op;
  RuleTable rules;
};

std::optional<std::string> NameOf(const c10d::ReduceOp& reduction) {
  switch (reduction.op_) {
    case c10d::ReduceOp::SUM:
      return "sum";
    case c10d::ReduceOp::AVG:
      return "avg";
    case c10d::ReduceOp::PRODUCT:
      return "product";
    case c10d::ReduceOp::MIN:
      return "min";
    case c10d::ReduceOp::MAX:
      return "max";
    default:
      return std::nullopt;
  }
}

// The kernels of c10d check the others, and raise errors that say what is wrong.
bool AreOnDevice(const Tensors& tensors) {
  return std::ranges::all_of(tensors, [](const at::Tensor& tensor) {
    return IsHpu(tensor) && tensor.layout() == c10::Layout::Strided;
  });
}

// Raises at the call what the collective would raise when the recording runs.
void CheckReduction(const Tensors& tensors, const c10d::ReduceOp& reduction) {
  for (const at::Tensor& tensor : tensors) {
    ElementsToReduce(tensor, reduction);
    ReductionOf(reduction, tensor.scalar_type());
  }
}

bool AreAlike(const Tensors& tensors, const at::Tensor& like) {
  return std::ranges::all_of(tensors, [&](const at::Tensor& tensor) {
    return tensor.scalar_type() == like.scalar_type() && tensor.numel() == like.numel();
  });
}

bool AreTimes(const at::Tensor& whole, const at::Tensor& part, int size) {
  return whole.scalar_type() == part.scalar_type() && whole.numel() == part.numel() * size;
}

at::Tensor Flat(const at::Tensor& tensor) { return tensor.contiguous().reshape({-1}); }

// A collective is no part of autograd's graph.
void Write(const at::Tensor& to, const at::Tensor& from) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  at::Tensor(to).copy_(from.reshape(to.sizes()));
}

// Fills in the sizes of parts that are all of one size; returns whether the sizes fit.
bool AreRows(std::vector<int64_t>* rows, const at::Tensor& tensor, int size) {
  if (tensor.dim() == 0) return false;
  const int64_t all = tensor.size(0);
  if (rows->empty() && all % size == 0) rows->assign(static_cast<size_t>(size), all / size);
  int64_t sum = 0;
  for (const int64_t each : *rows) sum += each;
  return rows->size() == static_cast<size_t>(size) && sum == all;
}

}  // namespace

void SetLazyCollectives(bool recorded) { in_lazy_mode = recorded; }

bool RecordsCollectives() {
  const Recorder& recorder = Recorder::Get();
  if (!recorder.Records()) return false;
  return recorder.IsCapturing() || in_lazy_mode.load(std::memory_order_relaxed);
}

void QueueRecordedCollectives() {
  if (!Recorder::Get().IsCapturing()) runtime::QueueRecorded(&CurrentStream());
}

void QueueBeforeShutdown() {
  if (!Recorder::IsLazy()) return;
  try {
    Recorder::Get().QueueStream(std::nullopt, "destroy_process_group()");
  } catch (const std::exception& error) {
    TORCH_WARN("destroy_process_group() could not run what lazy mode had recorded: ", error.what());
  }
}

at::Tensor RecordedCollectives::Call(const char* name, std::vector<IValue> arguments) const {
  const size_t group = arguments.size();
  arguments.emplace_back(GroupInPrograms(name_));
  for (const char* each : {name, "wait_tensor"}) {
    Functional& functional = Functional::Find(each);
    const size_t count = arguments.size();
    Stack stack = std::move(arguments);
    if (!Recorder::Get().Record(functional.rules, functional.op, count, &stack)) {
      if (stack.size() > group) stack[group] = name_;
      const CallsRunNow run_now;
      functional.op.callBoxed(&stack);
    }
    arguments = std::move(stack);
  }
  return arguments.at(0).toTensor();
}

RecordedCollectives::WorkPointer RecordedCollectives::Done(OpType type, const char* name,
                                                           const Tensors& outputs) const {
  return c10::make_intrusive<RecordedWork>(rank_, type, name, outputs);
}

RecordedCollectives::WorkPointer RecordedCollectives::AllReduce(
    const Tensors& tensors, const c10d::ReduceOp& reduction) const {
  const std::optional<std::string> name = NameOf(reduction);
  if (!name.has_value() || !AreOnDevice(tensors)) return nullptr;
  CheckReduction(tensors, reduction);
  for (const at::Tensor& tensor : tensors) {
    Write(tensor, Call("all_reduce", {tensor.contiguous(), *name}));
  }
  return Done(OpType::ALLREDUCE, "all_reduce", tensors);
}

RecordedCollectives::WorkPointer RecordedCollectives::Broadcast(const Tensors& tensors,
                                                                int64_t root) const {
  if (!AreOnDevice(tensors) || root < 0 || root >= size_) return nullptr;
  for (const at::Tensor& tensor : tensors) {
    Write(tensor, Call("broadcast", {tensor.contiguous(), root}));
  }
  return Done(OpType::BROADCAST, "broadcast", tensors);
}

RecordedCollectives::WorkPointer RecordedCollectives::AllGather(const Tensors& outputs,
                                                                const Tensors& inputs) const {
  if (!AreOnDevice(outputs) || !AreOnDevice(inputs) || outputs.size() != inputs.size()) {
    return nullptr;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!AreTimes(outputs[i], inputs[i], size_)) return nullptr;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    Write(outputs[i], Call("all_gather_into_tensor", {Flat(inputs[i]), int64_t{size_}}));
  }
  return Done(OpType::ALLGATHER, "all_gather", outputs);
}

RecordedCollectives::WorkPointer RecordedCollectives::AllGather(const std::vector<Tensors>& outputs,
                                                                const Tensors& inputs) const {
  if (!AreOnDevice(inputs) || outputs.size() != inputs.size()) return nullptr;
  Tensors all;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (outputs[i].size() != static_cast<size_t>(size_)) return nullptr;
    if (!AreOnDevice(outputs[i]) || !AreAlike(outputs[i], inputs[i])) return nullptr;
    all.insert(all.end(), outputs[i].begin(), outputs[i].end());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor rows =
        Call("all_gather_into_tensor", {Flat(inputs[i]), int64_t{size_}}).view({size_, -1});
    for (int64_t rank = 0; rank < size_; ++rank) {
      Write(outputs[i][static_cast<size_t>(rank)], rows.select(0, rank));
    }
  }
  return Done(OpType::ALLGATHER, "all_gather", all);
}

RecordedCollectives::WorkPointer RecordedCollectives::ReduceScatter(
    const Tensors& outputs, const Tensors& inputs, const c10d::ReduceOp& reduction) const {
  const std::optional<std::string> name = NameOf(reduction);
  if (!name.has_value() || !AreOnDevice(outputs) || !AreOnDevice(inputs)) return nullptr;
  if (outputs.size() != inputs.size()) return nullptr;
  CheckReduction(inputs, reduction);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!AreTimes(inputs[i], outputs[i], size_)) return nullptr;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    Write(outputs[i], Call("reduce_scatter_tensor", {Flat(inputs[i]), *name, int64_t{size_}}));
  }
  return Done(OpType::REDUCE_SCATTER, "reduce_scatter", outputs);
}

RecordedCollectives::WorkPointer RecordedCollectives::ReduceScatter(
    const Tensors& outputs, const std::vector<Tensors>& inputs,
    const c10d::ReduceOp& reduction) const {
  if (outputs.size() != inputs.size() || !AreOnDevice(outputs)) return nullptr;
  Tensors whole;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].size() != static_cast<size_t>(size_)) return nullptr;
    if (!AreOnDevice(inputs[i]) || !AreAlike(inputs[i], outputs[i])) return nullptr;
    Tensors parts;
    for (const at::Tensor& part : inputs[i]) parts.push_back(Flat(part));
    whole.push_back(at::cat(parts));
  }
  return ReduceScatter(outputs, whole, reduction);
}

RecordedCollectives::WorkPointer RecordedCollectives::AllToAll(
    const at::Tensor& output, const at::Tensor& input, std::vector<int64_t> output_rows,
    std::vector<int64_t> input_rows) const {
  if (!AreOnDevice({output, input}) || output.scalar_type() != input.scalar_type()) return nullptr;
  if (!AreRows(&output_rows, output, size_) || !AreRows(&input_rows, input, size_)) return nullptr;
  Write(output, Call("all_to_all_single", {input.contiguous(), output_rows, input_rows}));
  return Done(OpType::ALLTOALL_BASE, "all_to_all", {output});
}

}  // namespace hpu::torch_backend
