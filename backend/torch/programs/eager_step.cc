#include "backend/torch/programs/eager_step.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>

#include "backend/runtime/bridge_log.h"
#include "backend/runtime/counters.h"
#include "backend/torch/device/allocator.h"
#include "backend/torch/device/dtypes.h"
#include "backend/torch/device/errors.h"
#include "backend/torch/programs/copy_to_host.h"
#include "backend/torch/programs/group_names.h"
#include "backend/torch/programs/optional_type.h"
#include "backend/torch/programs/written_arguments.h"
#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {
namespace {

using c10::IValue;
using c10::TypeKind;
using c10::TypePtr;

c10::OperatorHandle FindOperator(const std::string& program, const EagerStep& step) {
  auto op = c10::Dispatcher::singleton().findSchema({step.op, step.overload});
  if (!op.has_value()) {
    Throw(Unimplemented("program ", program, ": this PyTorch has no operator ", step.op,
                        step.overload.empty() ? "" : ".", step.overload));
  }
  return *op;
}

bool HoldsTensor(const Argument& argument) {
  if (std::holds_alternative<TensorArgument>(argument.value)) return true;
  const auto* list = std::get_if<ArgumentList>(&argument.value);
  return list != nullptr && std::any_of(list->begin(), list->end(), HoldsTensor);
}

// Converts values whose form depends on the operator's declaration. Throws for a value that fits no
// declaration.
class Converter {
 public:
  explicit Converter(const std::vector<at::Tensor>* tensors) : tensors_(tensors) {}

  IValue Convert(const Argument& argument, const TypePtr& declared) const {
    const TypePtr type = WithoutOptional(declared);
    return std::visit([&](const auto& value) { return From(value, type); }, argument.value);
  }

 private:
  IValue From(const NoneArgument&, const TypePtr&) const { return IValue(); }
  IValue From(const TensorArgument& value, const TypePtr&) const {
    return (*tensors_)[value.tensor];
  }
  // Returns what Python makes of a number where a tensor is declared: it does not widen the other
  // operand.
  static at::Tensor WrappedNumber(const at::Scalar& value) {
    at::Tensor tensor = c10::scalar_to_tensor(value);
    tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
    return tensor;
  }

  IValue From(int64_t value, const TypePtr& type) const {
    if (type->kind() == TypeKind::TensorType) return WrappedNumber(value);
    if (type->kind() == TypeKind::FloatType) return static_cast<double>(value);
    if (type->kind() == TypeKind::BoolType) return value != 0;
    if (type->kind() == TypeKind::ListType) return c10::List<int64_t>({value});
    return value;
  }
  IValue From(double value, const TypePtr& type) const {
    if (type->kind() == TypeKind::TensorType) return WrappedNumber(value);
    if (type->kind() == TypeKind::ListType) return c10::List<double>({value});
    return value;
  }
  IValue From(bool value, const TypePtr& type) const {
    if (type->kind() == TypeKind::TensorType) return WrappedNumber(value);
    return value;
  }
  IValue From(const std::string& value, const TypePtr&) const { return value; }
  IValue From(const DTypeArgument& value, const TypePtr&) const {
    const auto dtype = ToScalarType(value.dtype);
    TORCH_CHECK(dtype.has_value(), "invalid dtype");
    return static_cast<int64_t>(*dtype);
  }
  IValue From(const EnumArgument& value, const TypePtr&) const {
    if (value.name == "contiguous_format")
      return static_cast<int64_t>(at::MemoryFormat::Contiguous);
    if (value.name == "preserve_format") return static_cast<int64_t>(at::MemoryFormat::Preserve);
    if (value.name == "channels_last") return static_cast<int64_t>(at::MemoryFormat::ChannelsLast);
    if (value.name == "channels_last_3d") {
      return static_cast<int64_t>(at::MemoryFormat::ChannelsLast3d);
    }
    if (value.name == "strided") return static_cast<int64_t>(at::kStrided);
    TORCH_CHECK(false, "unknown memory format or layout ", value.name);
  }
  IValue From(const DeviceArgument& value, const TypePtr&) const {
    return value.name == "hpu" ? kHpuDevice : c10::Device(value.name);
  }
  IValue From(const ArgumentList& values, const TypePtr& type) const {
    const auto list = type->cast<c10::ListType>();
    TORCH_CHECK(list != nullptr, "a list where ", type->str(), " is declared");
    const TypePtr element = list->getElementType();
    switch (element->kind()) {
      case TypeKind::TensorType:
        return Tensors(values);
      case TypeKind::OptionalType:
        return OptionalTensors(values);
      case TypeKind::FloatType:
        return ListOf<double>(values, element);
      case TypeKind::BoolType:
        return ListOf<bool>(values, element);
      case TypeKind::IntType:
      case TypeKind::SymIntType:
        return ListOf<int64_t>(values, element);
      default: {
        c10::impl::GenericList result(element);
        for (const Argument& value : values) result.push_back(Convert(value, element));
        return result;
      }
    }
  }
  IValue Tensors(const ArgumentList& values) const {
    c10::List<at::Tensor> result;
    for (const Argument& value : values) {
      result.push_back(Convert(value, c10::TensorType::get()).toTensor());
    }
    return result;
  }
  IValue OptionalTensors(const ArgumentList& values) const {
    c10::List<std::optional<at::Tensor>> result;
    for (const Argument& value : values) {
      result.push_back(Convert(value, c10::TensorType::get()).toOptional<at::Tensor>());
    }
    return result;
  }
  template <typename T>
  IValue ListOf(const ArgumentList& values, const TypePtr& element) const {
    c10::List<T> result;
    for (const Argument& value : values) result.push_back(Convert(value, element).to<T>());
    return result;
  }

  const std::vector<at::Tensor>* const tensors_;
};

// Returns the argument with copies of its tensors, which are appended to `copies`.
IValue CopyWritten(const IValue& argument, std::vector<at::Tensor>& copies) {
  if (argument.isTensor()) return copies.emplace_back(argument.toTensor().clone());
  if (!argument.isList()) return argument;
  c10::impl::GenericList list = argument.toList().copy();
  for (size_t i = 0; i < list.size(); ++i) {
    if (list.get(i).isTensor()) list.set(i, copies.emplace_back(list.get(i).toTensor().clone()));
  }
  return list;
}

// Strides of dimensions with at most one element have no meaning.
bool SameStrides(const at::Tensor& tensor, const TensorSpec& spec) {
  if (tensor.numel() == 0) return true;
  for (size_t i = 0; i < spec.sizes.size(); ++i) {
    const auto dim = static_cast<int64_t>(i);
    if (spec.sizes[i] > 1 && tensor.stride(dim) != spec.strides[i]) return false;
  }
  return true;
}

}  // namespace

PreparedEagerStep::PreparedEagerStep(const std::string& program, const ProgramFunction& function,
                                     const EagerStep& step, const std::vector<bool>& in_use)
    : program_(program), function_(function), step_(step), op_(FindOperator(program, step)) {
  for (const uint32_t output : step.outputs) output_in_use_.push_back(in_use[output]);
  const auto& declared = op_.schema().arguments();
  for (size_t i = 0; i < declared.size(); ++i) {
    arguments_.push_back(Prepare(declared[i], i < step.args.size() ? &step.args[i] : nullptr));
  }
  if (step.args.size() > declared.size()) {
    Throw(InvalidArgument("program ", program, ": more arguments for ", step.op,
                          " than it declares"));
  }
}

PreparedEagerStep::PreparedArgument PreparedEagerStep::Prepare(const c10::Argument& declared,
                                                               const Argument* given) {
  PreparedArgument prepared;
  prepared.type = declared.type();
  prepared.is_written = IsWritten(declared) && ResultsHoldWrites(op_.schema());
  if (given == nullptr) {
    if (!declared.default_value().has_value()) {
      Throw(InvalidArgument("program ", program_, ": ", step_.op, " lacks argument ",
                            declared.name()));
    }
    prepared.constant = *declared.default_value();
    return prepared;
  }
  if (HoldsTensor(*given)) {
    prepared.dynamic = given;
    ForEachTensor(*given, [&](uint32_t tensor) { inputs_.push_back(tensor); });
    return prepared;
  }
  prepared.is_group = IsGroup(declared) && std::holds_alternative<std::string>(given->value);
  try {
    prepared.constant = Converter(nullptr).Convert(*given, declared.type());
  } catch (const c10::Error& error) {
    Throw(InvalidArgument("program ", program_, ": ", step_.op, ", argument ", declared.name(),
                          ": ", error.what_without_backtrace()));
  }
  return prepared;
}

void PreparedEagerStep::Run(std::vector<at::Tensor>& tensors) const {
  const at::AutoDispatchBelowAutograd below_autograd;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  torch::jit::Stack stack;
  stack.reserve(arguments_.size());
  const Converter converter(&tensors);
  std::vector<at::Tensor> written;
  for (const PreparedArgument& argument : arguments_) {
    if (argument.is_group) {
      stack.emplace_back(GroupInProcess(argument.constant.toStringRef()));
      continue;
    }
    stack.push_back(argument.dynamic == nullptr
                        ? argument.constant
                        : converter.Convert(*argument.dynamic, argument.type));
    if (argument.is_written) stack.back() = CopyWritten(stack.back(), written);
  }
  BRIDGE_LOG(kFallback, kDebug,
             "eager step " << step_.op << " of program " << program_ << ": " << step_.reason);
  if (step_.op != kCopyToHost) ++runtime::GetCounters().eager_ops;
  op_.callBoxed(stack);
  std::vector<at::Tensor> results;
  for (const IValue& value : stack) {
    if (value.isTensor()) results.push_back(value.toTensor());
    if (!value.isTensorList()) continue;
    for (const at::Tensor& item : value.toTensorList()) results.push_back(item);
  }
  std::ranges::move(written, std::back_inserter(results));
  if (results.size() < step_.outputs.size()) {
    Throw(Internal("program ", program_, ": ", step_.op, " gave ", results.size(), " tensors, ",
                   step_.outputs.size(), " expected"));
  }
  for (size_t i = 0; i < step_.outputs.size(); ++i) {
    if (!output_in_use_[i]) continue;
    tensors[step_.outputs[i]] = Fit(std::move(results[i]), step_.outputs[i]);
  }
}

at::Tensor PreparedEagerStep::Fit(at::Tensor tensor, uint32_t output) const {
  if (!tensor.defined() || step_.op == kCopyToHost) return tensor;
  const TensorSpec& spec = function_.tensors[output].spec;
  const std::optional<at::ScalarType> type = ToScalarType(spec.dtype);
  // PyTorch's fake kernels say another type than its CPU kernels for a few results: the statistics
  // of layer_norm are f32 there and the input's type here.
  const bool convertible =
      type.has_value() && at::isFloatingType(*type) && at::isFloatingType(tensor.scalar_type());
  if (tensor.sizes() != at::IntArrayRef(spec.sizes) ||
      (tensor.scalar_type() != type && !convertible)) {
    Throw(Internal("program ", program_, ": ", step_.op, " gave ", tensor.toString(), " of sizes ",
                   c10::str(tensor.sizes()), ", the program says ",
                   c10::str(at::IntArrayRef(spec.sizes))));
  }
  if (SameStrides(tensor, spec) && tensor.device() == kHpuDevice && tensor.scalar_type() == type) {
    return tensor;
  }
  const at::Tensor fitted =
      at::empty_strided(spec.sizes, spec.strides, tensor.options().device(kHpuDevice).dtype(*type));
  return fitted.copy_(tensor);
}

}  // namespace hpu::torch_backend
