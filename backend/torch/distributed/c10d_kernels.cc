// The operators of c10d for hpu, and the backend's Python class. PyTorch registers these operators
// for each device type by itself, and not for hpu.
//
// The kernels are boxed and look their arguments up by name, because the operators get more
// arguments from version to version.
#include <pybind11/chrono.h>
#include <torch/library.h>

#include <optional>
#include <string_view>

#include "backend/torch/distributed/hccl_backend.h"
#include "backend/torch/distributed/recorded_collectives.h"

namespace hpu::torch_backend {
namespace {

using c10::IValue;
using torch::jit::Stack;
using Tensors = std::vector<at::Tensor>;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;

// The arguments of one call.
class Arguments {
 public:
  Arguments(const c10::OperatorHandle& op, const Stack& stack)
      : schema_(op.schema()),
        values_(torch::jit::last(stack, op.schema().arguments().size())),
        group_(Get("process_group").toCustomClass<c10d::ProcessGroup>()) {}

  c10::intrusive_ptr<c10d::Backend> backend() const {
    return group_->getBackend(c10::DeviceType::HPU);
  }
  // Returns the backend for a call that runs now. Recorded collectives run before it: the other
  // ranks may have run theirs, and all must make the calls of a group in one order.
  c10::intrusive_ptr<c10d::Backend> backend_for_call() const {
    if (RecordsCollectives()) QueueRecordedCollectives();
    return backend();
  }
  // Returns the work of `record`, which gets the group's recorded collectives, if collectives are
  // recorded and it has one; else that of `run`, which gets the backend.
  template <typename Record, typename Run>
  WorkPointer RecordOrRun(const Record& record, const Run& run) const {
    if (RecordsCollectives()) {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
      if (WorkPointer work = record(RecordedCollectives(*group_))) return work;
    }
    return run(*backend_for_call());
  }
  const IValue* Find(std::string_view name) const {
    const auto index = schema_.argumentIndexWithName(name);
    return index.has_value() ? &values_[static_cast<size_t>(*index)] : nullptr;
  }
  const IValue& Get(std::string_view name) const {
    const IValue* value = Find(name);
    TORCH_CHECK(value != nullptr, schema_.operator_name(), " has no argument ", name);
    return *value;
  }
  Tensors List(std::string_view name) const { return Get(name).toTensorVector(); }
  std::vector<Tensors> Lists(std::string_view name) const {
    std::vector<Tensors> lists;
    for (const IValue& list : Get(name).toListRef()) lists.push_back(list.toTensorVector());
    return lists;
  }
  int64_t Number(std::string_view name) const { return Get(name).toInt(); }

  // Sets what most options have.
  template <typename Options>
  Options With(Options options) const {
    if (const IValue* timeout = Find("timeout")) {
      options.timeout = std::chrono::milliseconds(timeout->toInt());
    }
    if (const IValue* is_async = Find("async_op")) options.asyncOp = is_async->toBool();
    return options;
  }
  template <typename Options>
  Options WithReduction() const {
    Options options = With(Options());
    options.reduceOp = *Get("reduce_op").toCustomClass<c10d::ReduceOp>();
    return options;
  }
  template <typename Options>
  Options WithRoot(Options options) const {
    options.rootRank = Number("root_rank");
    return options;
  }

 private:
  const c10::FunctionSchema& schema_;
  const c10::ArrayRef<IValue> values_;
  const c10::intrusive_ptr<c10d::ProcessGroup> group_;
};

IValue ToValue(const std::vector<Tensors>& lists) {
  c10::List<c10::List<at::Tensor>> all;
  for (const Tensors& list : lists) all.push_back(c10::List<at::Tensor>(list));
  return all;
}

// Runs `call`, which returns a work, and leaves `outputs` (if the operator returns them) and the
// work as the operator's results.
template <typename Outputs>
void Finish(const c10::OperatorHandle& op, Stack* stack, const Outputs& outputs,
            const WorkPointer& work) {
  torch::jit::drop(*stack, op.schema().arguments().size());
  if (op.schema().returns().size() == 2) {
    if constexpr (std::is_same_v<Outputs, std::vector<Tensors>>) {
      stack->push_back(ToValue(outputs));
    } else {
      stack->emplace_back(outputs);
    }
  }
  stack->emplace_back(work);
}

void Send(const c10::OperatorHandle& op, Stack* stack) {
  const Arguments call(op, *stack);
  Tensors tensors = call.List("tensors");
  Finish(op, stack, tensors,
         call.backend_for_call()->send(tensors, static_cast<int>(call.Number("dst")),
                                       static_cast<int>(call.Number("tag"))));
}

void Receive(const c10::OperatorHandle& op, Stack* stack) {
  const Arguments call(op, *stack);
  Tensors tensors = call.List("tensors");
  Finish(op, stack, tensors,
         call.backend_for_call()->recv(tensors, static_cast<int>(call.Number("src")),
                                       static_cast<int>(call.Number("tag"))));
}

void ReceiveFromAny(const c10::OperatorHandle& op, Stack* stack) {
  const Arguments call(op, *stack);
  Tensors tensors = call.List("tensors");
  Finish(op, stack, tensors,
         call.backend_for_call()->recvAnysource(tensors, static_cast<int>(call.Number("tag"))));
}

void Broadcast(const c10::OperatorHandle& op, Stack* stack) {
  const Arguments call(op, *stack);
  Tensors tensors = call.List("tensors");
  const auto options = call.WithRoot(call.With(c10d::BroadcastOptions()));
  Finish(op, stack, tensors,
         call.RecordOrRun(
             [&](const RecordedCollectives& group) {
               return group.Broadcast(tensors, options.rootRank);
             },
             [&](c10d::Backend& backend) { return backend.broadcast(tensors, options); }));
}

void AllReduce(const c10::OperatorHandle& op, Stack* stack) {
  const Arguments call(op, *stack);
  Tensors tensors = call.List("tensors");
  const auto options = call.WithReduction<c10d::AllreduceOptions>();
  Finish(op, stack, tensors,
         call.RecordOrRun(
             [&](const RecordedCollectives& group) {
               return group.AllReduce(tensors, options.reduceOp);
             },
             [&](c10d::Backend& backend) { return backend.allreduce(tensors, options); }));
}

void AllReduceCoalesced(const c10::OperatorHandle& op, Stack* stack) {
  const Arguments call(op, *stack);
  Tensors tensors = call.List("tensors");
  const auto options = call.WithReduction<c10d::AllreduceCoalescedOptions>();
  Finish(
      op, stack, tensors,
      call.RecordOrRun(
          [&](const RecordedCollectives& group) {
            return group.AllReduce(tensors, options.reduceOp);
          },
          [&](c10d::Backend& backend) { return backend.allreduce_coalesced(tensors, options); }));
}

void ReduceToRoot(const c10::OperatorHandle& op, Stack* stack) {
  const Arguments call(op, *stack);
  Tensors tensors = call.List("tensors");
  const auto options = call.WithRoot(call.WithReduction<c10d::ReduceOptions>());
  Finish(op, stack, tensors, call.backend_for_call()->reduce(tensors, options));
}

void AllGather(const c10::OperatorHandle& op, Stack* stack) {
  const Arguments call(op, *stack);
  std::vector<Tensors> outputs = call.Lists("output_tensors");
  Tensors inputs = call.List("input_tensors");
  const auto options = call.With(c10d::AllgatherOptions());
  Finish(op, stack, outputs,
         call.RecordOrRun(
             [&](const RecordedCollectives& group) { return group.AllGather(outputs, inputs); },
             [&](c10d::Backend& backend) { return backend.allgather(outputs, inputs, options); }));
}

void AllGatherCoalesced(const c10::OperatorHandle& op, Stack* stack) {
  const Arguments call(op, *stack);
  std::vector<Tensors> outputs = call.Lists("output_lists");
  Tensors inputs = call.List("input_list");
  const auto options = call.With(c10d::AllgatherOptions());
  Finish(op, stack, outputs,
         call.RecordOrRun(
             [&](const RecordedCollectives& group) { return group.AllGather(outputs, inputs); },
             [&](c10d::Backend& backend) {
               return backend.allgather_coalesced(outputs, inputs, options);
             }));
}

void AllGatherIntoTensor(const c10::OperatorHandle& op, Stack* stack) {
  const Arguments call(op, *stack);
  at::Tensor output = call.Get("output_tensor").toTensor();
  at::Tensor input = call.Get("input_tensor").toTensor();
  const auto options = call.With(c10d::AllgatherOptions());
  Finish(
      op, stack, output,
      call.RecordOrRun(
          [&](const RecordedCollectives& group) {
            return group.AllGather(Tensors{output}, Tensors{input});
          },
          [&](c10d::Backend& backend) { return backend._allgather_base(output, input, options); }));
}

void AllGatherIntoTensorCoalesced(const c10::OperatorHandle& op, Stack* stack) {
  const Arguments call(op, *stack);
  Tensors outputs = call.List("outputs");
  Tensors inputs = call.List("inputs");
  const auto options = call.With(c10d::AllgatherOptions());
  Finish(op, stack, outputs,
         call.RecordOrRun(
             [&](const RecordedCollectives& group) { return group.AllGather(outputs, inputs); },
             [&](c10d::Backend& backend) {
               return backend.allgather_into_tensor_coalesced(outputs, inputs, options);
             }));
}

void ReduceScatter(const c10::OperatorHandle& op, Stack* stack) {
  const Arguments call(op, *stack);
  Tensors outputs = call.List("output_tensors");
  std::vector<Tensors> inputs = call.Lists("input_tensors");
  const auto options = call.WithReduction<c10d::ReduceScatterOptions>();
  Finish(op, stack, outputs,
         call.RecordOrRun(
             [&](const RecordedCollectives& group) {
               return group.ReduceScatter(outputs, inputs, options.reduceOp);
             },
             [&](c10d::Backend& backend) {
               return backend.reduce_scatter(outputs, inputs, options);
             }));
}

void ReduceScatterTensor(const c10::OperatorHandle& op, Stack* stack) {
  const Arguments call(op, *stack);
  at::Tensor output = call.Get("output_tensor").toTensor();
  at::Tensor input = call.Get("input_tensor").toTensor();
  const auto options = call.WithReduction<c10d::ReduceScatterOptions>();
  Finish(op, stack, output,
         call.RecordOrRun(
             [&](const RecordedCollectives& group) {
               return group.ReduceScatter(Tensors{output}, Tensors{input}, options.reduceOp);
             },
             [&](c10d::Backend& backend) {
               return backend._reduce_scatter_base(output, input, options);
             }));
}

void ReduceScatterTensorCoalesced(const c10::OperatorHandle& op, Stack* stack) {
  const Arguments call(op, *stack);
  Tensors outputs = call.List("outputs");
  Tensors inputs = call.List("inputs");
  const auto options = call.WithReduction<c10d::ReduceScatterOptions>();
  Finish(op, stack, outputs,
         call.RecordOrRun(
             [&](const RecordedCollectives& group) {
               return group.ReduceScatter(outputs, inputs, options.reduceOp);
             },
             [&](c10d::Backend& backend) {
               return backend.reduce_scatter_tensor_coalesced(outputs, inputs, options);
             }));
}

void Gather(const c10::OperatorHandle& op, Stack* stack) {
  const Arguments call(op, *stack);
  std::vector<Tensors> outputs = call.Lists("output_tensors");
  Tensors inputs = call.List("input_tensors");
  const auto options = call.WithRoot(call.With(c10d::GatherOptions()));
  Finish(op, stack, outputs, call.backend_for_call()->gather(outputs, inputs, options));
}

void Scatter(const c10::OperatorHandle& op, Stack* stack) {
  const Arguments call(op, *stack);
  Tensors outputs = call.List("output_tensors");
  std::vector<Tensors> inputs = call.Lists("input_tensors");
  const auto options = call.WithRoot(call.With(c10d::ScatterOptions()));
  Finish(op, stack, outputs, call.backend_for_call()->scatter(outputs, inputs, options));
}

void AllToAll(const c10::OperatorHandle& op, Stack* stack) {
  const Arguments call(op, *stack);
  Tensors outputs = call.List("output_tensors");
  Tensors inputs = call.List("input_tensors");
  const auto options = call.With(c10d::AllToAllOptions());
  Finish(op, stack, outputs, call.backend_for_call()->alltoall(outputs, inputs, options));
}

void AllToAllSingle(const c10::OperatorHandle& op, Stack* stack) {
  const Arguments call(op, *stack);
  at::Tensor output = call.Get("output").toTensor();
  at::Tensor input = call.Get("input").toTensor();
  std::vector<int64_t> output_splits = call.Get("output_split_sizes").toIntVector();
  std::vector<int64_t> input_splits = call.Get("input_split_sizes").toIntVector();
  const auto options = call.With(c10d::AllToAllOptions());
  Finish(op, stack, output,
         call.RecordOrRun(
             [&](const RecordedCollectives& group) {
               return group.AllToAll(output, input, output_splits, input_splits);
             },
             [&](c10d::Backend& backend) {
               return backend.alltoall_base(output, input, output_splits, input_splits, options);
             }));
}

void Barrier(const c10::OperatorHandle& op, Stack* stack) {
  const Arguments call(op, *stack);
  const auto options = call.With(c10d::BarrierOptions());
  Finish(op, stack, at::Tensor(), call.backend_for_call()->barrier(options));
}

using Kernel = void (*)(const c10::OperatorHandle&, Stack*);

template <Kernel kernel>
void EndCoalescingOnError(const c10::OperatorHandle& op, Stack* stack) {
  try {
    kernel(op, stack);
  } catch (...) {
    const c10::intrusive_ptr<c10d::Backend> backend = Arguments(op, *stack).backend();
    if (auto* own = dynamic_cast<HcclBackend*>(backend.get())) own->AbandonCoalescing();
    throw;
  }
}

}  // namespace

void RegisterDistributedKernels() {
  // It is never freed, because the kernels stay for the life of the process.
  static auto* library =
      new torch::Library(torch::Library::IMPL, "c10d", c10::DispatchKey::HPU, __FILE__, __LINE__);
#define HPU_C10D(name, function) \
  library->impl(name, torch::CppFunction::makeFromBoxedFunction<&EndCoalescingOnError<&function>>())
  HPU_C10D("send", Send);
  HPU_C10D("recv_", Receive);
  HPU_C10D("recv_any_source_", ReceiveFromAny);
  HPU_C10D("broadcast_", Broadcast);
  HPU_C10D("allreduce_", AllReduce);
  HPU_C10D("allreduce_coalesced_", AllReduceCoalesced);
  HPU_C10D("reduce_", ReduceToRoot);
  HPU_C10D("allgather_", AllGather);
  HPU_C10D("allgather_coalesced_", AllGatherCoalesced);
  HPU_C10D("_allgather_base_", AllGatherIntoTensor);
  HPU_C10D("allgather_into_tensor_coalesced_", AllGatherIntoTensorCoalesced);
  HPU_C10D("reduce_scatter_", ReduceScatter);
  HPU_C10D("_reduce_scatter_base_", ReduceScatterTensor);
  HPU_C10D("reduce_scatter_tensor_coalesced_", ReduceScatterTensorCoalesced);
  HPU_C10D("gather_", Gather);
  HPU_C10D("scatter_", Scatter);
  HPU_C10D("alltoall_", AllToAll);
  HPU_C10D("alltoall_base_", AllToAllSingle);
  HPU_C10D("barrier", Barrier);
#undef HPU_C10D
}

void BindDistributed(pybind11::module_& module) {
  namespace py = pybind11;
  using ReleaseGil = py::call_guard<py::gil_scoped_release>;
  // The base classes are PyTorch's, which this import defines.
  py::module_::import("torch._C._distributed_c10d");
  module.def("stop_watching_backends", &StopWatchingBackends);
  module.def("set_lazy_collectives", &SetLazyCollectives);
  using Options = HcclBackend::Options;
  py::class_<Options, c10::intrusive_ptr<Options>, c10d::Backend::Options>(module, "HcclOptions")
      .def(py::init([](std::chrono::milliseconds timeout) {
             return c10::make_intrusive<Options>(timeout);
           }),
           py::arg("timeout") = kBackendDefaultTimeout)
      .def("__deepcopy__",
           [](const Options& self, const py::dict&) { return c10::make_intrusive<Options>(self); });
  py::class_<HcclBackend, c10::intrusive_ptr<HcclBackend>, c10d::Backend>(module, "HcclBackend")
      .def(py::init([](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                       const c10::intrusive_ptr<Options>& options) {
             return c10::make_intrusive<HcclBackend>(store, rank, size, options);
           }),
           ReleaseGil())
      .def_property_readonly(
          "options",
          [](HcclBackend& self) {
            return c10::static_intrusive_pointer_cast<Options>(self.getBackendOptions());
          })
      // A rank outside of a new group has nothing to do for it.
      .def("perform_nocolor_split", [](HcclBackend&, const py::object&) {});
}

}  // namespace hpu::torch_backend
