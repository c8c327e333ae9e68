#include "backend/torch/programs/collective_step.h"

#include "backend/runtime/copy.h"
#include "backend/torch/device/allocator.h"
#include "backend/torch/device/errors.h"
#include "backend/torch/programs/group_names.h"

namespace hpu::torch_backend {
namespace {

c10d::ReduceOp ReductionOf(CollectiveStep::ReduceOp reduction) {
  switch (reduction) {
    case CollectiveStep::ReduceOp::kAverage:
      return c10d::ReduceOp::AVG;
    case CollectiveStep::ReduceOp::kProduct:
      return c10d::ReduceOp::PRODUCT;
    case CollectiveStep::ReduceOp::kMin:
      return c10d::ReduceOp::MIN;
    case CollectiveStep::ReduceOp::kMax:
      return c10d::ReduceOp::MAX;
    default:
      return c10d::ReduceOp::SUM;
  }
}

c10::intrusive_ptr<c10d::ProcessGroup> Resolve(const std::string& program,
                                               const std::string& name) {
  try {
    return c10d::resolve_process_group(name);
  } catch (const c10::Error&) {
    Throw(InvalidArgument("program ", program, ": there is no process group \"", name,
                          "\"; it has been destroyed since the program was compiled, or it has "
                          "not been made in this process"));
  }
}

// c10d has these collectives in place only.
void CopyWhereApart(runtime::Stream& stream, const std::vector<at::Tensor>& inputs,
                    const std::vector<at::Tensor>& outputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const uint64_t from = AddressOf(inputs[i].const_data_ptr());
    const uint64_t to = AddressOf(outputs[i].data_ptr());
    if (from != to) Check(runtime::CopyOnDevice(stream, to, from, inputs[i].nbytes()));
  }
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> PreparedCollectiveStep::FindBackend() const {
  const std::string name = GroupInProcess(step_.group);
  const c10::intrusive_ptr<c10d::ProcessGroup> group = Resolve(program_, name);
  const auto ranks = static_cast<uint32_t>(group->getSize());
  if (step_.group_size != 0 && step_.group_size != ranks) {
    Throw(InvalidArgument("program ", program_, ": it was compiled for ", step_.group_size,
                          " ranks in the process group \"", name, "\", which has ", ranks));
  }
  return group->getBackend(c10::DeviceType::HPU);
}

c10::intrusive_ptr<c10d::Work> PreparedCollectiveStep::Start(
    runtime::Stream& stream, std::vector<at::Tensor> inputs,
    std::vector<at::Tensor> outputs) const {
  const c10::intrusive_ptr<c10d::Backend> backend = FindBackend();
  const bool is_async = !ends_at_once_;
  switch (step_.op) {
    case CollectiveStep::Op::kAllReduce: {
      CopyWhereApart(stream, inputs, outputs);
      c10d::AllreduceCoalescedOptions options;
      options.reduceOp = ReductionOf(step_.reduce_op);
      options.asyncOp = is_async;
      return outputs.size() == 1 ? backend->allreduce(outputs, options)
                                 : backend->allreduce_coalesced(outputs, options);
    }
    case CollectiveStep::Op::kBroadcast: {
      CopyWhereApart(stream, inputs, outputs);
      c10d::BroadcastOptions options;
      options.rootRank = step_.root;
      options.asyncOp = is_async;
      return backend->broadcast(outputs, options);
    }
    case CollectiveStep::Op::kAllGather: {
      c10d::AllgatherOptions options;
      options.asyncOp = is_async;
      return outputs.size() == 1
                 ? backend->_allgather_base(outputs[0], inputs[0], options)
                 : backend->allgather_into_tensor_coalesced(outputs, inputs, options);
    }
    case CollectiveStep::Op::kReduceScatter: {
      c10d::ReduceScatterOptions options;
      options.reduceOp = ReductionOf(step_.reduce_op);
      options.asyncOp = is_async;
      return outputs.size() == 1
                 ? backend->_reduce_scatter_base(outputs[0], inputs[0], options)
                 : backend->reduce_scatter_tensor_coalesced(outputs, inputs, options);
    }
    case CollectiveStep::Op::kAllToAll: {
      c10d::AllToAllOptions options;
      options.asyncOp = is_async;
      std::vector<int64_t> received = step_.output_splits;
      std::vector<int64_t> sent = step_.input_splits;
      return backend->alltoall_base(outputs[0], inputs[0], received, sent, options);
    }
  }
  Throw(Internal("program ", program_, ": a collective of no known kind"));
}

}  // namespace hpu::torch_backend
