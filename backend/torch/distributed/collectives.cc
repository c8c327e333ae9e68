// The collectives of the backend "hccl", each as calls of HCCL.
#include <algorithm>

#include "backend/torch/device/allocator.h"
#include "backend/torch/device/errors.h"
#include "backend/torch/distributed/hccl_backend.h"
#include "backend/torch/distributed/hccl_call.h"

namespace hpu::torch_backend {
namespace {

using c10d::OpType;
using Tensors = std::vector<at::Tensor>;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;

void CheckSame(const at::Tensor& a, const at::Tensor& b, const char* name) {
  TORCH_CHECK_TYPE(a.scalar_type() == b.scalar_type(), name, ": a tensor of ", a.scalar_type(),
                   " where the others have ", b.scalar_type());
  TORCH_CHECK_VALUE(a.numel() == b.numel(), name, ": a tensor of ", a.numel(),
                    " elements where the others have ", b.numel());
}

void CheckTimes(const at::Tensor& whole, const at::Tensor& part, int size, const char* name) {
  TORCH_CHECK_TYPE(whole.scalar_type() == part.scalar_type(), name, ": the tensors have ",
                   whole.scalar_type(), " and ", part.scalar_type());
  TORCH_CHECK_VALUE(whole.numel() == part.numel() * size, name, ": ", whole.numel(),
                    " elements are not ", size, " times ", part.numel());
}

Tensors Flatten(const std::vector<Tensors>& lists) {
  Tensors all;
  for (const Tensors& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

void Send(const SynapseFunctions& api, const at::Tensor& tensor, int peer, hcclComm_t comm,
          synStreamHandle stream) {
  const HcclElements elements = ElementsToMove(tensor);
  CheckHccl(api.hcclSend(Data(tensor), elements.count, elements.type, peer, comm, stream),
            "hcclSend");
}

void Receive(const SynapseFunctions& api, const at::Tensor& tensor, int peer, hcclComm_t comm,
             synStreamHandle stream) {
  const HcclElements elements = ElementsToMove(tensor);
  CheckHccl(api.hcclRecv(Data(tensor), elements.count, elements.type, peer, comm, stream),
            "hcclRecv");
}

// Runs `body`, whose sends and receives are issued together.
template <typename Body>
void Together(const SynapseFunctions& api, const char* name, const Body& body) {
  CheckHccl(api.hcclGroupStart(), "hcclGroupStart");
  try {
    body();
  } catch (...) {
    api.hcclGroupEnd();
    throw;
  }
  CheckHccl(api.hcclGroupEnd(), name);
}

}  // namespace

void HcclBackend::CheckOne(const Tensors& tensors, const char* name) const {
  TORCH_CHECK_VALUE(tensors.size() == 1, name,
                    ": a process has one device, so there is one tensor and not ", tensors.size());
}

void HcclBackend::CheckRank(int64_t rank, const char* what) const {
  TORCH_CHECK_VALUE(rank >= 0 && rank < getSize(), "the ", what, " ", rank, " is none of ",
                    getSize(), " ranks");
}

WorkPointer HcclBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  CheckOne(tensors, "broadcast");
  CheckRank(options.rootRank, "root");
  const HcclElements elements = ElementsToMove(tensors[0]);
  return Run({OpType::BROADCAST, "broadcast", {}, tensors, options.timeout, options.asyncOp},
             [&](const SynapseFunctions& api, hcclComm_t comm, synStreamHandle stream) {
               CheckHccl(api.hcclBroadcast(Data(tensors[0]), Data(tensors[0]), elements.count,
                                           elements.type, static_cast<int>(options.rootRank), comm,
                                           stream),
                         "broadcast");
             });
}

WorkPointer HcclBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  CheckOne(tensors, "all_reduce");
  c10d::AllreduceCoalescedOptions coalesced;
  static_cast<c10d::AllreduceOptions&>(coalesced) = options;
  return allreduce_coalesced(tensors, coalesced);
}

WorkPointer HcclBackend::allreduce_coalesced(Tensors& tensors,
                                             const c10d::AllreduceCoalescedOptions& options) {
  std::vector<HcclElements> elements;
  std::vector<hcclRedOp_t> reductions;
  for (const at::Tensor& tensor : tensors) {
    elements.push_back(ElementsToReduce(tensor, options.reduceOp));
    reductions.push_back(ReductionOf(options.reduceOp, tensor.scalar_type()));
  }
  const Tensors given = Premultiplied(tensors, options.reduceOp);
  return Run({OpType::ALLREDUCE, "all_reduce", given, tensors, options.timeout, options.asyncOp},
             [&](const SynapseFunctions& api, hcclComm_t comm, synStreamHandle stream) {
               for (size_t i = 0; i < tensors.size(); ++i) {
                 CheckHccl(api.hcclAllReduce(Data(given[i]), Data(tensors[i]), elements[i].count,
                                             elements[i].type, reductions[i], comm, stream),
                           "all_reduce");
               }
             });
}

WorkPointer HcclBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  CheckOne(tensors, "reduce");
  CheckRank(options.rootRank, "root");
  const HcclElements elements = ElementsToReduce(tensors[0], options.reduceOp);
  const hcclRedOp_t reduction = ReductionOf(options.reduceOp, tensors[0].scalar_type());
  const Tensors given = Premultiplied(tensors, options.reduceOp);
  return Run({OpType::REDUCE, "reduce", given, tensors, options.timeout, options.asyncOp},
             [&](const SynapseFunctions& api, hcclComm_t comm, synStreamHandle stream) {
               CheckHccl(
                   api.hcclReduce(Data(given[0]), Data(tensors[0]), elements.count, elements.type,
                                  reduction, static_cast<int>(options.rootRank), comm, stream),
                   "reduce");
             });
}

WorkPointer HcclBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                   const c10d::AllgatherOptions& options) {
  CheckOne(inputs, "all_gather");
  return allgather_coalesced(outputs, inputs, options);
}

// Each of the outputs has memory of its own, so they are received one by one.
WorkPointer HcclBackend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                             const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "all_gather: ", inputs.size(),
                    " tensors are gathered into ", outputs.size(), " lists");
  for (size_t i = 0; i < inputs.size(); ++i) {
    TORCH_CHECK_VALUE(outputs[i].size() == static_cast<size_t>(getSize()),
                      "all_gather: ", outputs[i].size(), " outputs for ", getSize(), " ranks");
    for (const at::Tensor& output : outputs[i]) CheckSame(output, inputs[i], "all_gather");
  }
  return Run(
      {OpType::ALLGATHER, "all_gather", inputs, Flatten(outputs), options.timeout, options.asyncOp},
      [&](const SynapseFunctions& api, hcclComm_t comm, synStreamHandle stream) {
        Together(api, "all_gather", [&] {
          for (int peer = 0; peer < getSize(); ++peer) {
            for (size_t i = 0; i < inputs.size(); ++i) {
              Send(api, inputs[i], peer, comm, stream);
              Receive(api, outputs[i][static_cast<size_t>(peer)], peer, comm, stream);
            }
          }
        });
      });
}

WorkPointer HcclBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                         const c10d::AllgatherOptions& options) {
  Tensors outputs{output};
  Tensors inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

WorkPointer HcclBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                         const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "all_gather_into_tensor: ", inputs.size(),
                    " inputs and ", outputs.size(), " outputs");
  for (size_t i = 0; i < inputs.size(); ++i) {
    CheckTimes(outputs[i], inputs[i], getSize(), "all_gather_into_tensor");
  }
  return Run({OpType::_ALLGATHER_BASE, "all_gather_into_tensor", inputs, outputs, options.timeout,
              options.asyncOp},
             [&](const SynapseFunctions& api, hcclComm_t comm, synStreamHandle stream) {
               for (size_t i = 0; i < inputs.size(); ++i) {
                 const HcclElements elements = ElementsToMove(inputs[i]);
                 CheckHccl(api.hcclAllGather(Data(inputs[i]), Data(outputs[i]), elements.count,
                                             elements.type, comm, stream),
                           "all_gather_into_tensor");
               }
             });
}

WorkPointer HcclBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                const c10d::GatherOptions& options) {
  CheckOne(inputs, "gather");
  CheckRank(options.rootRank, "root");
  const auto root = static_cast<int>(options.rootRank);
  if (getRank() == root) {
    TORCH_CHECK_VALUE(outputs.size() == 1 && outputs[0].size() == static_cast<size_t>(getSize()),
                      "gather: the root needs one output for each of ", getSize(), " ranks");
    for (const at::Tensor& output : outputs[0]) CheckSame(output, inputs[0], "gather");
  }
  return Run({OpType::GATHER, "gather", inputs, Flatten(outputs), options.timeout, options.asyncOp},
             [&](const SynapseFunctions& api, hcclComm_t comm, synStreamHandle stream) {
               Together(api, "gather", [&] {
                 Send(api, inputs[0], root, comm, stream);
                 if (getRank() != root) return;
                 for (int peer = 0; peer < getSize(); ++peer) {
                   Receive(api, outputs[0][static_cast<size_t>(peer)], peer, comm, stream);
                 }
               });
             });
}

WorkPointer HcclBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                 const c10d::ScatterOptions& options) {
  CheckOne(outputs, "scatter");
  CheckRank(options.rootRank, "root");
  const auto root = static_cast<int>(options.rootRank);
  if (getRank() == root) {
    TORCH_CHECK_VALUE(inputs.size() == 1 && inputs[0].size() == static_cast<size_t>(getSize()),
                      "scatter: the root needs one input for each of ", getSize(), " ranks");
    for (at::Tensor& input : inputs[0]) {
      CheckSame(input, outputs[0], "scatter");
      input = input.contiguous();  // gradients of sums are expanded
    }
  }
  return Run(
      {OpType::SCATTER, "scatter", Flatten(inputs), outputs, options.timeout, options.asyncOp},
      [&](const SynapseFunctions& api, hcclComm_t comm, synStreamHandle stream) {
        Together(api, "scatter", [&] {
          Receive(api, outputs[0], root, comm, stream);
          if (getRank() != root) return;
          for (int peer = 0; peer < getSize(); ++peer) {
            Send(api, inputs[0][static_cast<size_t>(peer)], peer, comm, stream);
          }
        });
      });
}

// Each of the inputs has memory of its own, so each is reduced to its rank by itself.
WorkPointer HcclBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                        const c10d::ReduceScatterOptions& options) {
  CheckOne(outputs, "reduce_scatter");
  TORCH_CHECK_VALUE(inputs.size() == 1 && inputs[0].size() == static_cast<size_t>(getSize()),
                    "reduce_scatter: one input for each of ", getSize(), " ranks is needed");
  for (const at::Tensor& input : inputs[0]) CheckSame(input, outputs[0], "reduce_scatter");
  const HcclElements elements = ElementsToReduce(outputs[0], options.reduceOp);
  const hcclRedOp_t reduction = ReductionOf(options.reduceOp, outputs[0].scalar_type());
  const Tensors given = Premultiplied(inputs[0], options.reduceOp);
  return Run(
      {OpType::REDUCE_SCATTER, "reduce_scatter", given, outputs, options.timeout, options.asyncOp},
      [&](const SynapseFunctions& api, hcclComm_t comm, synStreamHandle stream) {
        for (int root = 0; root < getSize(); ++root) {
          CheckHccl(api.hcclReduce(Data(given[static_cast<size_t>(root)]), Data(outputs[0]),
                                   elements.count, elements.type, reduction, root, comm, stream),
                    "reduce_scatter");
        }
      });
}

WorkPointer HcclBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                              const c10d::ReduceScatterOptions& options) {
  Tensors outputs{output};
  Tensors inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

WorkPointer HcclBackend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "reduce_scatter_tensor: ", inputs.size(),
                    " inputs and ", outputs.size(), " outputs");
  std::vector<HcclElements> elements;
  std::vector<hcclRedOp_t> reductions;
  for (size_t i = 0; i < inputs.size(); ++i) {
    CheckTimes(inputs[i], outputs[i], getSize(), "reduce_scatter_tensor");
    elements.push_back(ElementsToReduce(outputs[i], options.reduceOp));
    reductions.push_back(ReductionOf(options.reduceOp, outputs[i].scalar_type()));
  }
  const Tensors given = Premultiplied(inputs, options.reduceOp);
  return Run({OpType::_REDUCE_SCATTER_BASE, "reduce_scatter_tensor", given, outputs,
              options.timeout, options.asyncOp},
             [&](const SynapseFunctions& api, hcclComm_t comm, synStreamHandle stream) {
               for (size_t i = 0; i < inputs.size(); ++i) {
                 CheckHccl(
                     api.hcclReduceScatter(Data(given[i]), Data(outputs[i]), elements[i].count,
                                           elements[i].type, reductions[i], comm, stream),
                     "reduce_scatter_tensor");
               }
             });
}

WorkPointer HcclBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                       std::vector<int64_t>& output_splits,
                                       std::vector<int64_t>& input_splits,
                                       const c10d::AllToAllOptions& options) {
  TORCH_CHECK_TYPE(output.scalar_type() == input.scalar_type(),
                   "all_to_all_single: the tensors have ", output.scalar_type(), " and ",
                   input.scalar_type());
  c10d::checkSplitSizes(input_splits, input, getSize());
  c10d::checkSplitSizes(output_splits, output, getSize());
  const auto parts = [&](const at::Tensor& tensor, const std::vector<int64_t>& splits) {
    return splits.empty() ? tensor.tensor_split(getSize()) : tensor.split_with_sizes(splits);
  };
  const bool equal = input_splits.empty() && output_splits.empty();
  return Run({OpType::ALLTOALL_BASE,
              "all_to_all_single",
              {input},
              {output},
              options.timeout,
              options.asyncOp},
             [&](const SynapseFunctions& api, hcclComm_t comm, synStreamHandle stream) {
               if (equal && getSize() > 1) {
                 const HcclElements elements = ElementsToMove(input);
                 CheckHccl(api.hcclAlltoAll(Data(input), Data(output), elements.count,
                                            elements.type, comm, stream),
                           "all_to_all_single");
                 return;
               }
               const Tensors sent = parts(input, input_splits);
               const Tensors received = parts(output, output_splits);
               Together(api, "all_to_all_single", [&] {
                 for (int peer = 0; peer < getSize(); ++peer) {
                   Send(api, sent[static_cast<size_t>(peer)], peer, comm, stream);
                   Receive(api, received[static_cast<size_t>(peer)], peer, comm, stream);
                 }
               });
             });
}

WorkPointer HcclBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                  const c10d::AllToAllOptions& options) {
  const auto size = static_cast<size_t>(getSize());
  TORCH_CHECK_VALUE(outputs.size() == size && inputs.size() == size, "all_to_all: ", inputs.size(),
                    " inputs and ", outputs.size(), " outputs for ", size, " ranks");
  return Run({OpType::ALLTOALL, "all_to_all", inputs, outputs, options.timeout, options.asyncOp},
             [&](const SynapseFunctions& api, hcclComm_t comm, synStreamHandle stream) {
               Together(api, "all_to_all", [&] {
                 for (size_t peer = 0; peer < size; ++peer) {
                   Send(api, inputs[peer], static_cast<int>(peer), comm, stream);
                   Receive(api, outputs[peer], static_cast<int>(peer), comm, stream);
                 }
               });
             });
}

WorkPointer HcclBackend::SendOrReceive(Tensors& tensors, int peer, bool sends) {
  const char* name = sends ? "send" : "receive";
  CheckOne(tensors, name);
  CheckRank(peer, "peer");
  TORCH_CHECK_VALUE(peer != getRank(), name, ": rank ", peer, " is this rank");
  Call call{sends ? OpType::SEND : OpType::RECV, name, {}, {}};
  (sends ? call.inputs : call.outputs) = tensors;
  Communicator();
  call.stream = &StreamTo(peer, sends);
  return Run(std::move(call),
             [&](const SynapseFunctions& api, hcclComm_t comm, synStreamHandle stream) {
               sends ? Send(api, tensors[0], peer, comm, stream)
                     : Receive(api, tensors[0], peer, comm, stream);
             });
}

WorkPointer HcclBackend::send(Tensors& tensors, int peer, int /*tag*/) {
  return SendOrReceive(tensors, peer, true);
}

WorkPointer HcclBackend::recv(Tensors& tensors, int peer, int /*tag*/) {
  return SendOrReceive(tensors, peer, false);
}

WorkPointer HcclBackend::barrier(const c10d::BarrierOptions& options) {
  const at::Tensor word = at::empty({1}, at::TensorOptions(kHpuDevice).dtype(at::kFloat));
  const c10::intrusive_ptr<HcclWork> work = Run(
      {OpType::BARRIER, "barrier", {}, {word}, options.timeout, options.asyncOp},
      [&](const SynapseFunctions& api, hcclComm_t comm, synStreamHandle stream) {
        CheckHccl(api.hcclAllReduce(Data(word), Data(word), 1, hcclFloat32, hcclMax, comm, stream),
                  "barrier");
      });
  work->set_blocks_host();
  return work;
}

}  // namespace hpu::torch_backend
