#include "backend/torch/record/call_rule.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "backend/torch/device/allocator.h"
#include "backend/torch/eager/tensor_arguments.h"
#include "backend/torch/programs/optional_type.h"
#include "backend/torch/record/front_end.h"

namespace hpu::torch_backend {
namespace {

namespace py = pybind11;
using c10::IValue;
using Place = ArgumentTemplate::Kind;

// Without `numbers` they are constants.
ArgumentTemplate ToTemplate(const IValue& value, const c10::TypePtr& declared,
                            c10::ArrayRef<const at::Tensor*> tensors, bool numbers) {
  ArgumentTemplate result;
  if (value.isDouble() && numbers) {
    result.kind = Place::kNumber;
    return result;
  }
  if (value.isTensor() && value.toTensor().defined()) {
    const at::Tensor& tensor = value.toTensor();
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
      if (tensor.scalar_type() == at::kDouble && numbers) {
        result.kind = Place::kWrappedNumber;
        return result;
      }
    } else {
      result.kind = Place::kTensor;
      while (!tensors[result.tensor]->is_same(tensor)) ++result.tensor;
      return result;
    }
  }
  if (value.isList()) {
    const auto list = WithoutOptional(declared)->cast<c10::ListType>();
    result.kind = Place::kList;
    result.element = list ? list->getElementType() : c10::AnyType::get();
    bool constant = true;
    for (const IValue& item : value.toListRef()) {
      result.items.push_back(ToTemplate(item, result.element, tensors, numbers));
      constant &= result.items.back().kind == Place::kConstant;
    }
    if (!constant) return result;
    result = {};
  }
  result.constant = value;
  return result;
}

std::atomic<uint64_t> next_id{1};

// `description` is a Description of habana_frameworks/torch/lazy/calls.py.
void TakeDescription(const py::object& description, CallRule& rule) {
  rule.refusal = description.attr("refusal").cast<std::string>();
  rule.lengths = description.attr("counts").cast<std::vector<int64_t>>();
  for (const py::handle result : description.attr("results")) {
    using ResultKind = CallRule::Result::Kind;
    const auto kind = result.attr("kind").cast<std::string>();
    const auto sizes = result.attr("sizes").cast<std::vector<int64_t>>();
    const auto strides = result.attr("strides").cast<std::vector<int64_t>>();
    rule.results.push_back({kind == "new"        ? ResultKind::kNew
                            : kind == "argument" ? ResultKind::kArgument
                                                 : ResultKind::kUndefined,
                            result.attr("tensor").cast<size_t>(),
                            {result.attr("dtype").cast<at::ScalarType>(), sizes, strides}});
  }
  for (const py::handle resize : description.attr("resizes")) {
    const auto sizes = resize.attr("sizes").cast<std::vector<int64_t>>();
    const auto strides = resize.attr("strides").cast<std::vector<int64_t>>();
    rule.resizes.push_back(
        {resize.attr("tensor").cast<size_t>(), at::DimVector(sizes), at::DimVector(strides)});
  }
}

// Returns whether two tensors lie in one memory in part. PyTorch refuses to write one while it
// reads the other, where it can tell.
bool OverlapInPart(const at::Tensor& a, const at::Tensor& b) {
  if (a.is_same(b) || a.numel() == 0 || b.numel() == 0) return false;
  if (!a.storage().is_alias_of(b.storage())) return false;
  if (!a.is_non_overlapping_and_dense() || !b.is_non_overlapping_and_dense()) return false;
  const auto begin = [](const at::Tensor& t) {
    return t.storage_offset() * static_cast<int64_t>(t.element_size());
  };
  const auto end = [&](const at::Tensor& t) {
    return begin(t) + t.numel() * static_cast<int64_t>(t.element_size());
  };
  if (begin(a) == begin(b) && end(a) == end(b)) return a.strides() != b.strides();
  return begin(a) < end(b) && begin(b) < end(a);
}

// The operators of lazy/numbers.py.
bool TakesNumbers(std::string_view name) {
  constexpr std::string_view kNames[] = {"add",  "sub",     "mul",     "div",
                                         "rsub", "addcmul", "addcdiv", "fill"};
  if (!name.starts_with("aten::")) return false;
  name.remove_prefix(std::string_view("aten::").size());
  if (name.ends_with('_')) name.remove_suffix(1);
  return std::ranges::find(kNames, name) != std::end(kNames);
}

bool IsExactAsDouble(int64_t integer) {
  constexpr int64_t kMost = int64_t{1} << std::numeric_limits<double>::digits;
  return -kMost <= integer && integer <= kMost;
}

}  // namespace

size_t TensorForm::StorageBytes() const {
  return at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(dtype));
}

at::Tensor TensorForm::Over(c10::Storage storage, int64_t offset) const {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::HPU),
      c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return tensor;
}

IValue ArgumentTemplate::Fill(c10::ArrayRef<at::Tensor> tensors, const double*& numbers) const {
  switch (kind) {
    case Place::kTensor:
      return tensors[tensor];
    case Place::kNumber:
      return *numbers++;
    case Place::kWrappedNumber: {
      at::Tensor wrapped = at::scalar_tensor(*numbers++, at::kDouble);
      wrapped.unsafeGetTensorImpl()->set_wrapped_number(true);
      return wrapped;
    }
    case Place::kList: {
      c10::impl::GenericList list(element);
      for (const ArgumentTemplate& item : items) list.push_back(item.Fill(tensors, numbers));
      return list;
    }
    case Place::kConstant:
      break;
  }
  return constant;
}

bool CallRule::WritesWhatOverlaps(const CallSignature& call) const {
  for (const size_t place : written) {
    const at::Tensor& tensor = *call.tensors()[place];
    if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes) return true;
    if (!shares_memory) continue;
    for (const at::Tensor* other : call.tensors()) {
      if (OverlapInPart(tensor, *other)) return true;
    }
  }
  return false;
}

std::shared_ptr<const CallRule> RefusedRule(const c10::OperatorHandle& op, std::string reason) {
  return std::make_shared<CallRule>(
      CallRule{.id = next_id++, .refusal = std::move(reason), .op = op});
}

std::shared_ptr<const CallRule> DescribeCall(const c10::OperatorHandle& op,
                                             c10::ArrayRef<IValue> arguments,
                                             const CallSignature& call) {
  const std::vector<c10::Argument>& declared = op.schema().arguments();
  auto rule = std::make_shared<CallRule>(CallRule{.id = next_id++,
                                                  .refusal = {},
                                                  .op = op,
                                                  .words = WordsOf(call),
                                                  .counts = &CountsOf(ShortName(op.schema()))});
  {
    const FrontEnd front_end;
    const auto [positional, named] = ToPythonCall(op, arguments);
    FrontEnd::Ask([&] {
      TakeDescription(front_end.describe_call(op.schema().name(), op.schema().overload_name(),
                                              positional, named),
                      *rule);
    });
  }
  if (!rule->refusal.empty()) return RefusedRule(op, rule->refusal);
  for (size_t i = 0; i < arguments.size(); ++i) {
    rule->arguments.push_back(ToTemplate(arguments[i], declared[i].real_type(), call.tensors(),
                                         /*numbers=*/!call.numbers().empty()));
  }
  const std::string& name = op.schema().name();
  rule->fills_argument =
      call.tensors().size() == 1 && (name == "aten::zero_" || name == "aten::fill_");
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::AliasInfo* alias = declared[i].alias_info();
    if (alias == nullptr || !alias->isWrite()) continue;
    ForEachTensor(arguments[i], [&](const at::Tensor& tensor) {
      for (size_t k = 0; k < call.tensors().size(); ++k) {
        if (call.tensors()[k]->is_same(tensor)) rule->written.push_back(k);
      }
    });
  }
  std::set<const c10::StorageImpl*> storages;
  for (const at::Tensor* tensor : call.tensors()) {
    rule->shares_memory |= !storages.insert(tensor->storage().unsafeGetStorageImpl()).second;
    rule->tensors.emplace_back(*tensor);
    rule->on_host.push_back(!tensor->device().is_hpu());
  }
  return rule;
}

RuleTable::RuleTable(const c10::FunctionSchema& schema)
    : sized_by_numbers_(schema.name() == "aten::arange" || schema.name() == "aten::range"),
      takes_numbers_(TakesNumbers(schema.name())) {}

void TakeIntegersAsDoubles(c10::ArrayRef<c10::Argument> declared, size_t argument_count,
                           torch::jit::Stack* stack) {
  const auto arguments = torch::jit::last(*stack, argument_count);
  const auto is_number = [](const IValue& value) {
    return value.isTensor() && value.toTensor().defined() &&
           value.toTensor().unsafeGetTensorImpl()->is_wrapped_number();
  };
  const bool is_floating = std::ranges::any_of(arguments, [&](const IValue& value) {
    return value.isTensor() && value.toTensor().defined() && !is_number(value) &&
           at::isFloatingType(value.toTensor().scalar_type());
  });
  if (!is_floating) return;
  for (size_t i = 0; i < argument_count; ++i) {
    IValue& value = (*stack)[stack->size() - argument_count + i];
    if (value.isInt() && declared[i].real_type()->kind() == c10::TypeKind::NumberType) {
      // An alpha of 1 is none, and mostly not given.
      const bool is_default =
          declared[i].default_value().has_value() && *declared[i].default_value() == value;
      if (!is_default && IsExactAsDouble(value.toInt())) value = static_cast<double>(value.toInt());
    } else if (is_number(value) && value.toTensor().scalar_type() == at::kLong) {
      const int64_t integer = *value.toTensor().const_data_ptr<int64_t>();
      if (!IsExactAsDouble(integer)) continue;
      at::Tensor number = c10::scalar_to_tensor(static_cast<double>(integer));
      number.unsafeGetTensorImpl()->set_wrapped_number(true);
      value = std::move(number);
    }
  }
}

std::shared_ptr<const CallRule> RuleTable::Find(const CallSignature& call) {
  const std::lock_guard lock(mutex_);
  const auto found = rules_.find(call);
  return found == rules_.end() ? nullptr : found->second;
}

void RuleTable::Keep(const CallSignature& call, std::shared_ptr<const CallRule> rule) {
  const std::lock_guard lock(mutex_);
  if (rules_.size() >= kMostSignatures) rules_.clear();
  rules_[WordsOf(call)] = std::move(rule);
}

}  // namespace hpu::torch_backend
