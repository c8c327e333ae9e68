// Every header of PyTorch that backend/torch uses and that PyTorch may change or remove in any
// version, with what is used of it. The other files of backend/torch include this header, and
// directly only what PyTorch promises to extensions: ATen/ATen.h, torch/library.h,
// torch/extension.h and the basic types of c10/core (tools/check_arrows.py has that list and checks
// this). All of these headers exist, with these names, in PyTorch 2.13, 2.14 and 2.15.
// Where a version differs, the difference belongs here, so that the users of a name need not know.
//
// `_torch` precompiles this header, so that including it costs a file nothing.
#pragma once

// Kineto's headers ask for the name of their namespace.
#define KINETO_NAMESPACE libkineto

// The dispatcher: finding operators by name, reading their schemas, calling them boxed.

// c10::KernelFunction of operators that have a kernel of their own.
#include <ATen/core/boxing/KernelFunction.h>
// c10::Dispatcher, c10::OperatorHandle.
#include <ATen/core/dispatch/Dispatcher.h>
// c10::FunctionSchema, c10::Argument, c10::AliasInfo.
#include <ATen/core/function_schema.h>
// torch::jit::Stack, last(), peek() and drop().
#include <ATen/core/stack.h>
// The guards at::AutoDispatchBelowAutograd and at::AutoDispatchBelowADInplaceOrView.
#include <ATen/core/LegacyTypeDispatch.h>
// c10::impl::ExcludeDispatchKeyGuard, which switches autocast off.
#include <c10/core/impl/LocalDispatchKeySet.h>

// The state of a thread.

// at::ThreadLocalState and its guard, for a capture without the caller's modes.
#include <ATen/ThreadLocalState.h>
// at::autocast::is_autocast_enabled(), the type that it casts to, and casts with its cache.
#include <ATen/autocast_mode.h>
// at::GradMode, at::AutoGradMode, at::NoGradGuard.
#include <ATen/core/grad_mode.h>
// RECORD_FUNCTION, at::getStepCallbacksUnlessEmpty(): the profiler's ranges.
#include <ATen/record_function.h>
// c10::AutogradState, for the mode of forward derivatives.
#include <c10/core/AutogradState.h>

// Memory and the device.

// at::HostAllocator, at::HostStats, at::setHostAllocator(): pinned memory.
#include <ATen/core/CachingHostAllocator.h>
// at::detail::getCUDAHooks(), which a CUDA wheel must not be asked through.
#include <ATen/detail/CUDAHooksInterface.h>
// at::HPUHooksInterface and its registration.
#include <ATen/detail/HPUHooksInterface.h>
// c10::SetCPUAllocator(), for results in device memory.
#include <c10/core/CPUAllocator.h>
// c10::DeviceAllocator and the figures of c10::CachingDeviceAllocator.
#include <c10/core/CachingDeviceAllocator.h>
// c10::impl::DeviceGuardImplInterface and its registration: streams and events.
#include <c10/core/impl/DeviceGuardImplInterface.h>

// Tensors and random numbers.

// at::CPUGeneratorImpl, at::detail::createCPUGenerator(), getDefaultCPUGenerator().
#include <ATen/CPUGeneratorImpl.h>
// at::detail::empty_generic(), empty_strided_generic(), empty_cpu(), computeStorageNbytes().
#include <ATen/EmptyTensor.h>
// at::has_internal_overlap(), assert_no_partial_overlap().
#include <ATen/MemoryOverlap.h>
// at::get_num_threads().
#include <ATen/Parallel.h>

// Implementations of operators that hpu takes as they are.

// at::native::call_fallback_fn.
#include <ATen/native/CPUFallback.h>
// at::native::checkSetStorage().
#include <ATen/native/Resize.h>
// at::native::ZeroTensorAllocator.
#include <ATen/native/TensorFactories.h>
// at::native::_fused_sdp_choice_cpp().
#include <ATen/ops/_fused_sdp_choice_native.h>
// at::native::_local_scalar_dense_cpu().
#include <ATen/ops/_local_scalar_dense_native.h>
// at::native::_reshape_alias().
#include <ATen/ops/_reshape_alias_native.h>
// at::native::as_strided_tensorimpl().
#include <ATen/ops/as_strided_native.h>
// at::native::set_() and set_tensor_().
#include <ATen/ops/set_native.h>
// at::native::unfold().
#include <ATen/ops/unfold_native.h>
// at::native::view_as_complex().
#include <ATen/ops/view_as_complex_native.h>
// at::native::view_as_real().
#include <ATen/ops/view_as_real_native.h>
// at::native::view().
#include <ATen/ops/view_native.h>

// The profiler's rows of the device.

// libkineto::api(), libkineto::IActivityProfiler and its session.
#include <kineto/libkineto.h>
// libkineto::ActivityLogger.
#include <kineto/output_base.h>

// Autograd.

// at::SavedTensorDefaultHooks: whether hooks of saved tensors are set.
#include <ATen/SavedTensorHooks.h>
// torch::autograd::Function and its context: the backward of a program.
#include <torch/csrc/autograd/custom_function.h>
// torch::autograd::ForwardADLevel: whether there are tangents.
#include <torch/csrc/autograd/forward_grad.h>
// torch::autograd::Error, the node that refuses second derivatives.
#include <torch/csrc/autograd/functions/basic_ops.h>
// torch::autograd::set_history().
#include <torch/csrc/autograd/functions/utils.h>
// torch::autograd::get_current_graph_task_keep_graph(), get_current_graph_task_id().
#include <torch/csrc/autograd/graph_task.h>
// torch::autograd::variable_list, Edge and get_current_node().
#include <torch/csrc/autograd/variable.h>

// Process groups.

// c10d::ProcessGroup, from which the operators of c10d get a backend.
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
// c10d::Backend, c10d::Work, their options, c10d::ReduceOp.
#include <torch/csrc/distributed/c10d/Backend.hpp>
// c10d::resolve_process_group(), which finds a process group by its name.
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
// c10d::Timer and its registry, for the logging data of DistributedDataParallel.
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>
// c10d::Store and c10d::PrefixStore.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

// Python objects.

// c10::SafePyObject, which autograd's threads may release.
#include <c10/core/SafePyObject.h>
// THPDevice.
#include <torch/csrc/Device.h>
// THPDtype.
#include <torch/csrc/Dtype.h>
// torch::getTHPDtype(), torch::getTHPLayout().
#include <torch/csrc/DynamicTypes.h>
// torch::PyTorchError, python_error, torch::translate_exception_to_python().
#include <torch/csrc/Exceptions.h>
// THPGenerator_Wrap() and the symbol THPGeneratorClass.
#include <torch/csrc/Generator.h>
// THPLayout.
#include <torch/csrc/Layout.h>
// THPMemoryFormat.
#include <torch/csrc/MemoryFormat.h>
// getPyInterpreter().
#include <torch/csrc/PyInterpreter.h>
// THPVariable_Check(), THPVariable_Unpack(), THPVariable_Wrap().
#include <torch/csrc/autograd/python_variable.h>
// torch::CapturedTraceback and torch::py_symbolize(): the stacks of a memory snapshot.
#include <torch/csrc/profiler/python/combined_traceback.h>
// torch::jit::toPyObject().
#include <torch/csrc/jit/python/pybind_utils.h>
// THPObjectPtr.
#include <torch/csrc/utils/object_ptr.h>
// pybind11 with PyTorch's casters.
#include <torch/csrc/utils/pybind.h>
// torch::utils::getTHPMemoryFormat().
#include <torch/csrc/utils/tensor_memoryformats.h>

// Containers.

// c10::make_scope_exit().
#include <c10/util/ScopeExit.h>
// c10::SmallVector.
#include <c10/util/SmallVector.h>
// c10::intrusive_ptr.
#include <c10/util/intrusive_ptr.h>
