#include "backend/torch/eager/autocast.h"

#include <ATen/ATen.h>
#include <torch/extension.h>
#include <torch/library.h>

#include <map>
#include <optional>
#include <set>

#include "backend/torch/eager/tensor_arguments.h"

namespace hpu::torch_backend {
namespace {

using c10::IValue;
using torch::jit::Stack;

TORCH_LIBRARY_IMPL(_, AutocastHPU, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

at::Tensor Cast(c10::ScalarType type, const at::Tensor& tensor) {
  return at::autocast::cached_cast(type, tensor, c10::kHPU);
}

void CastValue(c10::ScalarType type, IValue& value) {
  if (value.isTensor()) {
    value = Cast(type, value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> cast;
    for (const IValue& item : value.toListRef()) cast.push_back(Cast(type, item.toTensor()));
    value = std::move(cast);
  }
}

void CastArguments(c10::ScalarType type, const c10::OperatorHandle& op, Stack* stack) {
  const size_t count = op.schema().arguments().size();
  for (size_t i = 0; i < count; ++i) CastValue(type, torch::jit::peek(*stack, i, count));
}

// The widest type among the arguments that autocast may cast.
std::optional<c10::ScalarType> WidestType(const c10::OperatorHandle& op, const Stack& stack) {
  std::optional<c10::ScalarType> widest;
  for (const IValue& value : torch::jit::last(stack, op.schema().arguments().size())) {
    ForEachTensor(value, [&](const at::Tensor& tensor) {
      if (!at::autocast::is_eligible(tensor, c10::kHPU)) return;
      const c10::ScalarType type = tensor.scalar_type();
      // Types of eight bits are promoted to none, and two of one type need not be.
      if (widest != type) widest = widest ? c10::promoteTypes(*widest, type) : type;
    });
  }
  return widest;
}

c10::ScalarType LowerType() { return at::autocast::get_autocast_dtype(c10::kHPU); }

// The operator's own parts are not cast again.
class WithoutAutocast {
 private:
  const c10::impl::ExcludeDispatchKeyGuard guard_{c10::DispatchKey::AutocastHPU};
};

void InLowerPrecision(const c10::OperatorHandle& op, Stack* stack) {
  const WithoutAutocast guard;
  CastArguments(LowerType(), op, stack);
  op.callBoxed(stack);
}

void InLowerPrecisionOfFirst(const c10::OperatorHandle& op, Stack* stack) {
  const WithoutAutocast guard;
  CastValue(LowerType(), torch::jit::peek(*stack, 0, op.schema().arguments().size()));
  op.callBoxed(stack);
}

void InFp32(const c10::OperatorHandle& op, Stack* stack) {
  const WithoutAutocast guard;
  CastArguments(c10::kFloat, op, stack);
  op.callBoxed(stack);
}

void InWidestType(const c10::OperatorHandle& op, Stack* stack) {
  const WithoutAutocast guard;
  if (const auto widest = WidestType(op, *stack)) CastArguments(*widest, op, stack);
  op.callBoxed(stack);
}

// Autocast goes on in the operator's parts, as for an operator without a rule.
void Aligned(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (const auto widest = WidestType(op, *stack)) {
    const WithoutAutocast guard;
    CastArguments(*widest, op, stack);
  }
  const c10::DispatchKeySet below(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::AutocastHPU);
  op.redispatchBoxed(keys & below, stack);
}

torch::CppFunction KernelOf(const std::string& way) {
  using torch::CppFunction;
  if (way == "lower_precision") return CppFunction::makeFromBoxedFunction<&InLowerPrecision>();
  if (way == "lower_precision_of_first") {
    return CppFunction::makeFromBoxedFunction<&InLowerPrecisionOfFirst>();
  }
  if (way == "fp32") return CppFunction::makeFromBoxedFunction<&InFp32>();
  if (way == "promote") return CppFunction::makeFromBoxedFunction<&InWidestType>();
  TORCH_CHECK_VALUE(way == "aligned", "register_autocast: no way to cast is named ", way);
  return CppFunction::makeFromBoxedFunction<&Aligned>();
}

bool IsOutOfPlace(const c10::FunctionSchema& schema) { return !schema.is_mutable(); }

std::vector<AutocastRule>& Rules() {
  static auto* rules = new std::vector<AutocastRule>;
  return *rules;
}

}  // namespace

std::vector<std::string> RegisterAutocast(const std::vector<AutocastRule>& rules) {
  TORCH_CHECK(Rules().empty(), "register_autocast was called before");
  std::multimap<std::string, c10::OperatorHandle> named;  // by name and by name with overload
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    const auto op = dispatcher.findSchema(name);
    if (!op.has_value() || !IsOutOfPlace(op->schema())) continue;
    const std::string short_name = name.name.substr(6);
    named.emplace(short_name, *op);
    if (!name.overload_name.empty()) named.emplace(short_name + "." + name.overload_name, *op);
  }
  // It is never freed, because the kernels stay for the life of the process.
  static auto* library = new torch::Library(torch::Library::IMPL, "aten",
                                            c10::DispatchKey::AutocastHPU, __FILE__, __LINE__);
  std::set<std::string> ruled;
  std::vector<std::string> unknown;
  for (const auto& [name, way] : rules) {
    const auto [begin, end] = named.equal_range(name);
    if (begin == end) unknown.push_back(name);
    for (auto found = begin; found != end; ++found) {
      const std::string full_name = toString(found->second.operator_name());
      if (ruled.insert(full_name).second) library->impl(full_name.c_str(), KernelOf(way));
    }
  }
  Rules() = rules;
  return unknown;
}

void BindAutocast(pybind11::module_& module) {
  module.def("register_autocast", &RegisterAutocast);
  module.def("autocast_rules", &Rules);
}

}  // namespace hpu::torch_backend
