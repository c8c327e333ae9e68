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

void Send(const HcclQueue& to, const at::Tensor& tensor, int peer) {
  const HcclElements elements = ElementsToMove(tensor);
  CheckHccl(to.api.hcclSend(Data(tensor), elements.count, elements.type, peer, to.comm, to.stream),
            "hcclSend");
}

void Receive(const HcclQueue& to, const at::Tensor& tensor, int peer) {
  const HcclElements elements = ElementsToMove(tensor);
  CheckHccl(to.api.hcclRecv(Data(tensor), elements.count, elements.type, peer, to.comm, to.stream),
            "hcclRecv");
}

// Runs `body`, whose sends and receives are issued together.
template <typename Body>
void Together(const HcclQueue& to, const char* name, const Body& body) {
  CheckHccl(to.api.hcclGroupStart(), "hcclGroupStart");
  try {
    body();
  } catch (...) {
    to.api.hcclGroupEnd();
    throw;
  }
  CheckHccl(to.api.hcclGroupEnd(), name);
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
             [&](const HcclQueue& to, const Tensors& /*in*/, const Tensors& out) {
               CheckHccl(
                   to.api.hcclBroadcast(Data(out[0]), Data(out[0]), elements.count, elements.type,
                                        static_cast<int>(options.rootRank), to.comm, to.stream),
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
             [&](const HcclQueue& to, const Tensors& in, const Tensors& out) {
               for (size_t i = 0; i < out.size(); ++i) {
                 CheckHccl(
                     to.api.hcclAllReduce(Data(in[i]), Data(out[i]), elements[i].count,
                                          elements[i].type, reductions[i], to.comm, to.stream),
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
             [&](const HcclQueue& to, const Tensors& in, const Tensors& out) {
               CheckHccl(to.api.hcclReduce(Data(in[0]), Data(out[0]), elements.count, elements.type,
                                           reduction, static_cast<int>(options.rootRank), to.comm,
                                           to.stream),
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
  const auto size = static_cast<size_t>(getSize());
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "all_gather: ", inputs.size(),
                    " tensors are gathered into ", outputs.size(), " lists");
  for (size_t i = 0; i < inputs.size(); ++i) {
    TORCH_CHECK_VALUE(outputs[i].size() == size, "all_gather: ", outputs[i].size(), " outputs for ",
                      getSize(), " ranks");
    for (const at::Tensor& output : outputs[i]) CheckSame(output, inputs[i], "all_gather");
  }
  return Run(
      {OpType::ALLGATHER, "all_gather", inputs, Flatten(outputs), options.timeout, options.asyncOp},
      [&](const HcclQueue& to, const Tensors& in, const Tensors& out) {
        Together(to, "all_gather", [&] {
          for (int peer = 0; peer < getSize(); ++peer) {
            for (size_t i = 0; i < in.size(); ++i) {
              Send(to, in[i], peer);
              Receive(to, out[i * size + static_cast<size_t>(peer)], peer);
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
             [&](const HcclQueue& to, const Tensors& in, const Tensors& out) {
               for (size_t i = 0; i < in.size(); ++i) {
                 const HcclElements elements = ElementsToMove(in[i]);
                 CheckHccl(to.api.hcclAllGather(Data(in[i]), Data(out[i]), elements.count,
                                                elements.type, to.comm, to.stream),
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
             [&](const HcclQueue& to, const Tensors& in, const Tensors& out) {
               Together(to, "gather", [&] {
                 Send(to, in[0], root);
                 if (getRank() != root) return;
                 for (int peer = 0; peer < getSize(); ++peer) {
                   Receive(to, out[static_cast<size_t>(peer)], peer);
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
    for (const at::Tensor& input : inputs[0]) CheckSame(input, outputs[0], "scatter");
  }
  return Run(
      {OpType::SCATTER, "scatter", Flatten(inputs), outputs, options.timeout, options.asyncOp},
      [&](const HcclQueue& to, const Tensors& in, const Tensors& out) {
        Together(to, "scatter", [&] {
          Receive(to, out[0], root);
          if (getRank() != root) return;
          for (int peer = 0; peer < getSize(); ++peer) {
            Send(to, in[static_cast<size_t>(peer)], peer);
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
      [&](const HcclQueue& to, const Tensors& in, const Tensors& out) {
        for (int root = 0; root < getSize(); ++root) {
          CheckHccl(
              to.api.hcclReduce(Data(in[static_cast<size_t>(root)]), Data(out[0]), elements.count,
                                elements.type, reduction, root, to.comm, to.stream),
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
             [&](const HcclQueue& to, const Tensors& in, const Tensors& out) {
               for (size_t i = 0; i < in.size(); ++i) {
                 CheckHccl(
                     to.api.hcclReduceScatter(Data(in[i]), Data(out[i]), elements[i].count,
                                              elements[i].type, reductions[i], to.comm, to.stream),
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
             [&](const HcclQueue& to, const Tensors& in, const Tensors& out) {
               if (equal && getSize() > 1) {
                 const HcclElements elements = ElementsToMove(in[0]);
                 CheckHccl(to.api.hcclAlltoAll(Data(in[0]), Data(out[0]), elements.count,
                                               elements.type, to.comm, to.stream),
                           "all_to_all_single");
                 return;
               }
               const Tensors sent = parts(in[0], input_splits);
               const Tensors received = parts(out[0], output_splits);
               Together(to, "all_to_all_single", [&] {
                 for (int peer = 0; peer < getSize(); ++peer) {
                   Send(to, sent[static_cast<size_t>(peer)], peer);
                   Receive(to, received[static_cast<size_t>(peer)], peer);
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
             [&](const HcclQueue& to, const Tensors& in, const Tensors& out) {
               Together(to, "all_to_all", [&] {
                 for (size_t peer = 0; peer < size; ++peer) {
                   Send(to, in[peer], static_cast<int>(peer));
                   Receive(to, out[peer], static_cast<int>(peer));
                 }
               });
             });
}

WorkPointer HcclBackend::SendOrReceive(Tensors& tensors, int peer, bool sends) {
  const char* name = sends ? "send" : "receive";
  CheckOne(tensors, name);
  CheckRank(peer, "peer");
  TORCH_CHECK_VALUE(peer != getRank(), name, ": rank ", peer, " is this rank");
  // Copying what has been received to where it belongs could keep the host from sending.
  TORCH_CHECK_VALUE(sends || tensors[0].is_contiguous(),
                    "receive: pass a contiguous tensor; this one has the sizes ",
                    tensors[0].sizes(), " and strides ", tensors[0].strides());
  Call call{sends ? OpType::SEND : OpType::RECV, name, {}, {}};
  (sends ? call.inputs : call.outputs) = tensors;
  Communicator();
  call.stream = &StreamTo(peer, sends);
  return Run(std::move(call), [&](const HcclQueue& to, const Tensors& in, const Tensors& out) {
    sends ? Send(to, in[0], peer) : Receive(to, out[0], peer);
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
  const c10::intrusive_ptr<HcclWork> work =
      Run({OpType::BARRIER, "barrier", {}, {word}, options.timeout, options.asyncOp},
          [&](const HcclQueue& to, const Tensors& /*in*/, const Tensors& out) {
            CheckHccl(to.api.hcclAllReduce(Data(out[0]), Data(out[0]), 1, hcclFloat32, hcclMax,
                                           to.comm, to.stream),
                      "barrier");
          });
  work->set_blocks_host();
  return work;
}

}  // namespace hpu::torch_backend
