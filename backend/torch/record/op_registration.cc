#include "backend/torch/record/op_registration.h"

#include <torch/library.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/torch/eager/fallback.h"
#include "backend/torch/eager/own_kernel.h"
#include "backend/torch/eager/tensor_arguments.h"
#include "backend/torch/record/call_program.h"
#include "backend/torch/record/custom_kernel.h"
#include "backend/torch/record/front_end.h"
#include "backend/torch/record/op_kernel.h"
#include "backend/torch/record/recorder.h"

namespace hpu::torch_backend {
namespace {

using c10::IValue;
using torch::jit::Stack;

// Operators without a CPU kernel of their own (PyTorch composes them) that must be taken as a
// whole: for unknown devices the composition ends in an operator that nothing implements, or, in
// _grouped_mm, waits for the device to read where groups end.
constexpr const char* kTakenWhole[] = {
    "aten::_convolution", "aten::_grouped_mm", "aten::convolution",  "aten::convolution_backward",
    "aten::cummax",       "aten::cummin",      "aten::logcumsumexp",
};

// These are similar, but PyTorch composes their gradients and their autocast, too, from those of
// the parts. They are taken as a whole only where neither is wanted.
constexpr const char* kTakenWholeWithoutGradient[] = {
    "aten::gru",
    "aten::lstm",
    "aten::rnn_relu",
    "aten::rnn_tanh",
};

template <size_t size>
bool IsAmong(const char* const (&names)[size], const std::string& name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool WantsParts(const c10::FunctionSchema& schema, const Stack& stack) {
  if (at::autocast::is_autocast_enabled(c10::kHPU)) return true;
  // This is a tangent of forward-mode differentiation, which needs no grad mode.
  const bool forward = c10::AutogradState::get_tls_state().get_fw_grad_mode();
  const bool backward = at::GradMode::is_enabled();
  bool wanted = false;
  for (const IValue& value : torch::jit::last(stack, schema.arguments().size())) {
    ForEachTensor(value, [&](const at::Tensor& tensor) {
      wanted |= backward && tensor.requires_grad();
      wanted |= forward && tensor._fw_grad(0).defined();
    });
  }
  return wanted;
}

// Runs the call by its parts. Recorded, whole layers are the parts of sequences of one length, so
// that a recording has one call for a layer however many steps there are.
void RunParts(const c10::OperatorHandle& op, Stack* stack) {
  if (op.schema().overload_name() == "input" && !InFrontEnd() && Recorder::Get().Records()) {
    const size_t count = op.schema().arguments().size();
    if (auto results = CallLayers(op, torch::jit::last(*stack, count))) {
      torch::jit::drop(*stack, count);
      for (IValue& result : *results) stack->push_back(std::move(result));
      return;
    }
  }
  op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, *stack);
}

// The kernel of kTakenWholeWithoutGradient for AutogradHPU. Fake tensors reach it, too.
void RunPartsOrGoOn(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (WantsParts(op.schema(), *stack)) return RunParts(op, stack);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  op.redispatchBoxed(keys & c10::after_ADInplaceOrView_keyset, stack);
}

// Their kernel for HPU, which inference mode reaches without the one above.
class PartsOrOpKernel final : public c10::OperatorKernel {
 public:
  explicit PartsOrOpKernel(const c10::FunctionSchema& schema) : whole_(schema, std::nullopt) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    if (at::autocast::is_autocast_enabled(c10::kHPU)) return RunParts(op, stack);
    whole_(op, keys, stack);
  }

 private:
  OpKernel whole_;
};

// The kernel on hpu of operators that have none there and are not composed of others: those of
// other libraries (torchvision), and those of aten that the CPU lacks, too.
void RunForeignOnCpu(const c10::OperatorHandle& op, Stack* stack) {
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasKernelForDispatchKey(c10::DispatchKey::CPU), "Could not run '",
                              op.operator_name(),
                              "' on hpu: it has a kernel neither for hpu nor for the CPU");
  RunOnCpu(op, stack);
}

void RefuseSparse(const c10::OperatorHandle& op, Stack* /*stack*/) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, op.operator_name(),
      ": there are no sparse tensors on hpu, because Gaudi has none. Use a dense tensor "
      "(to_dense()), and for an embedding sparse=False");
}

// The kernels of sparse tensors, of which a gradient of an embedding would be one.
void RegisterSparse() {
  for (const c10::DispatchKey key : {c10::DispatchKey::SparseHPU, c10::DispatchKey::SparseCsrHPU}) {
    // It is never freed, because the kernels stay for the life of the process.
    auto* library = new torch::Library(torch::Library::IMPL, "_", key, __FILE__, __LINE__);
    library->fallback(torch::CppFunction::makeFromBoxedFunction<&RefuseSparse>());
  }
}

// PyTorch's Python calls norm and frobenius_norm instead of linalg_vector_norm on devices that it
// does not list. DTensor has no rule for them that holds with reduced dimensions, and takes an
// empty list for none of them, not for all.
at::OptionalIntArrayRef AllIfNone(at::IntArrayRef dim) {
  return dim.empty() ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(dim);
}
at::Tensor Norm(const at::Tensor& self, const at::Scalar& p) {
  return at::linalg_vector_norm(self, p);
}
at::Tensor NormOfType(const at::Tensor& self, const std::optional<at::Scalar>& p,
                      at::ScalarType dtype) {
  return at::linalg_vector_norm(self, p.value_or(2), std::nullopt, /*keepdim=*/false, dtype);
}
at::Tensor NormOver(const at::Tensor& self, const std::optional<at::Scalar>& p, at::IntArrayRef dim,
                    bool keepdim) {
  return at::linalg_vector_norm(self, p.value_or(2), AllIfNone(dim), keepdim);
}
at::Tensor NormOfTypeOver(const at::Tensor& self, const std::optional<at::Scalar>& p,
                          at::IntArrayRef dim, bool keepdim, at::ScalarType dtype) {
  return at::linalg_vector_norm(self, p.value_or(2), AllIfNone(dim), keepdim, dtype);
}
at::Tensor FrobeniusNorm(const at::Tensor& self, at::IntArrayRef dim, bool keepdim) {
  return at::linalg_vector_norm(self, 2, AllIfNone(dim), keepdim);
}

void RegisterNorms(torch::Library& with_gradients) {
  with_gradients.impl("frobenius_norm.dim", &FrobeniusNorm);
  with_gradients.impl("norm.Scalar", &Norm);
  with_gradients.impl("norm.ScalarOpt_dtype", &NormOfType);
  with_gradients.impl("norm.ScalarOpt_dim", &NormOver);
  with_gradients.impl("norm.ScalarOpt_dim_dtype", &NormOfTypeOver);
}

template <typename Kernel, typename... Arguments>
torch::CppFunction NewKernel(Arguments&&... arguments) {
  return torch::CppFunction::makeFromBoxedKernel(c10::BoxedKernel::makeFromFunctor(
      std::make_unique<Kernel>(std::forward<Arguments>(arguments)...)));
}

// Registers the kernel on hpu of an operator that the package defines
// (habana_frameworks/torch/ops).
void RegisterOpKernel(const std::string& name, const std::string& overload) {
  // It is never freed, because the kernels stay for the life of the process.
  static auto* library =
      new torch::Library(torch::Library::IMPL, "hpu", c10::DispatchKey::HPU, __FILE__, __LINE__);
  const c10::OperatorName full(name, overload);
  const auto op = c10::Dispatcher::singleton().findSchema(full);
  TORCH_CHECK(op.has_value(), "register_op_kernel: there is no operator ", full);
  library->impl(c10::toString(full).c_str(),
                NewKernel<OpKernel>(op->schema(), std::nullopt, /*in_recipes=*/1));
}

}  // namespace

void RegisterOpKernels() {
  // These are never freed, because the kernels stay for the life of the process.
  static auto* library =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::HPU, __FILE__, __LINE__);
  static auto* with_gradients = new torch::Library(
      torch::Library::IMPL, "aten", c10::DispatchKey::AutogradHPU, __FILE__, __LINE__);
  static auto* foreign =
      new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::HPU, __FILE__, __LINE__);
  foreign->fallback(torch::CppFunction::makeFromBoxedFunction<&RunForeignOnCpu>());
  std::map<std::string, OwnKernel> own;
  for (OwnKernel& row : CopyKernels()) own.emplace(row.op, row);
  for (OwnKernel& row : RandomKernels()) own.emplace(row.op, row);
  for (OwnKernel& row : DataDependentKernels()) own.emplace(row.op, row);
  for (OwnKernel& row : DistributionKernels()) own.emplace(row.op, row);
  for (OwnKernel& row : ComposedKernels()) own.emplace(row.op, row);
  for (OwnKernel& row : FusedOptimizerKernels()) own.emplace(row.op, row);
  RegisterNorms(*with_gradients);
  RegisterSparse();
  DefineCustomKernel();
  RegisterOpKernel(kCustomKernel, "");
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    const auto op = dispatcher.findOp(name);
    if (!op.has_value() || !op->hasSchema() || op->hasKernelForDispatchKey(c10::DispatchKey::HPU)) {
      continue;
    }
    const std::string full = c10::toString(name);
    const auto found = own.find(full);
    if (found != own.end()) {
      library->impl(full.c_str(), NewKernel<OpKernel>(op->schema(), found->second));
    } else if (IsAmong(kTakenWholeWithoutGradient, name.name)) {
      with_gradients->impl(full.c_str(),
                           torch::CppFunction::makeFromBoxedFunction<&RunPartsOrGoOn>());
      library->impl(full.c_str(), NewKernel<PartsOrOpKernel>(op->schema()));
    } else if (op->hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
               IsAmong(kTakenWhole, name.name)) {
      library->impl(full.c_str(), NewKernel<OpKernel>(op->schema(), std::nullopt));
    }
  }
}

void BindOpKernels(pybind11::module_& module) {
  module.def("register_op_kernel", &RegisterOpKernel);
  module.def("wants_index_checks", &WantsIndexChecks);
  module.def("set_recipe_ops", [](const std::vector<std::string>& names) { SetRecipeOps(names); });
  module.def("forget_call_programs", [] {
    ForgetCallPrograms();
    Recorder::Get().ForgetPrograms();
  });
}

}  // namespace hpu::torch_backend
