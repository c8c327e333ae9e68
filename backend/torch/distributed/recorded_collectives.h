// Collectives that are recorded, in captures and in lazy mode, and run with the rest of the
// recording (docs/decisions/0052-recorded-collectives.md).
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {

// Lets lazy mode record collectives; captures always do. PT_HPU_ENABLE_LAZY_COLLECTIVES.
void SetLazyCollectives(bool recorded);

// Returns whether the calls of this thread record collectives now.
bool RecordsCollectives();

// Queues what the current stream has recorded in lazy mode. In a capture it does nothing.
void QueueRecordedCollectives();

// Queues what all streams have recorded in lazy mode: a process group is about to go, whose
// collectives may be among it. Warns of an error, which must not keep the group.
void QueueBeforeShutdown();

// The collectives of one process group. Each function records what the collective of c10d with the
// same name does, and returns its work, which has ended: its results are in the order of the
// recording. Returns null, and records nothing, for what has no functional form (a reduction, or a
// tensor that is not on hpu).
class RecordedCollectives {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPointer = c10::intrusive_ptr<c10d::Work>;

  explicit RecordedCollectives(const c10d::ProcessGroup& group)
      : name_(group.getGroupName()), rank_(group.getRank()), size_(group.getSize()) {}

  WorkPointer AllReduce(const Tensors& tensors, const c10d::ReduceOp& reduction) const;
  WorkPointer Broadcast(const Tensors& tensors, int64_t root) const;
  // Each output is filled by the inputs of the same number of all ranks.
  WorkPointer AllGather(const Tensors& outputs, const Tensors& inputs) const;
  WorkPointer AllGather(const std::vector<Tensors>& outputs, const Tensors& inputs) const;
  WorkPointer ReduceScatter(const Tensors& outputs, const Tensors& inputs,
                            const c10d::ReduceOp& reduction) const;
  WorkPointer ReduceScatter(const Tensors& outputs, const std::vector<Tensors>& inputs,
                            const c10d::ReduceOp& reduction) const;
  // The parts are rows. Without sizes of them all are of one size.
  WorkPointer AllToAll(const at::Tensor& output, const at::Tensor& input,
                       std::vector<int64_t> output_rows, std::vector<int64_t> input_rows) const;

 private:
  // Records a call of _c10d_functional and the wait for its result.
  at::Tensor Call(const char* name, std::vector<c10::IValue> arguments) const;
  WorkPointer Done(c10d::OpType type, const char* name, const Tensors& outputs) const;

  const std::string name_;
  const int rank_;
  const int size_;
};

}  // namespace hpu::torch_backend
