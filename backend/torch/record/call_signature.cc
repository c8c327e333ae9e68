#include "backend/torch/record/call_signature.h"

#include <algorithm>
#include <bit>
#include <string_view>

#include "backend/torch/device/generator.h"
#include "backend/torch/eager/cpu_call.h"
#include "backend/torch/programs/input_form.h"

namespace hpu::torch_backend {
namespace {

using c10::IValue;

// The first word of each value: a kind in the low byte, and a count or a type above it.
enum Kind : uint64_t {
  kNone,
  kTensor,  // then sizes, strides, and the earlier tensor in whose storage it lies
  kSameAs,  // with the position of a tensor that came before
  kNumber,  // a number that PyTorch wraps as a tensor; then its bits
  kInt,     // then its bits, and so on
  kDouble,
  kBool,
  kText,  // then its bytes, eight in a word
  kList,  // then its items
  kDeviceType,
  // These two come before all values.
  kDeterministic,  // under torch.use_deterministic_algorithms
  kDefaultType,    // under another default type than f32, which is that of integers with floats
};

constexpr uint64_t Head(Kind kind, uint64_t more = 0) { return more << 8 | kind; }

}  // namespace

CallSignature::CallSignature(c10::ArrayRef<IValue> arguments, Numbers numbers) : where_(numbers) {
  if (at::globalContext().deterministicAlgorithms()) AddWord(Head(kDeterministic));
  const at::ScalarType usual = c10::get_default_dtype_as_scalartype();
  if (usual != at::kFloat) AddWord(Head(kDefaultType, static_cast<uint64_t>(usual)));
  for (size_t i = 0; i < arguments.size() && refusal_ == nullptr; ++i) Add(arguments[i]);
  hash_ = HashOf(words());
}

void CallSignature::Add(const IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined()) return AddWord(Head(kNone));
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) return AddNumber(tensor);
    return AddTensor(tensor);
  }
  if (value.isNone()) return AddWord(Head(kNone));
  if (value.isInt()) {
    AddWord(Head(kInt));
    return AddWord(static_cast<uint64_t>(value.toInt()));
  }
  if (value.isDouble()) {
    AddWord(Head(kDouble));
    return AddDouble(value.toDouble());
  }
  if (value.isBool()) return AddWord(Head(kBool, value.toBool() ? 1 : 0));
  if (value.isList()) {
    const c10::ArrayRef<IValue> items = value.toListRef();
    AddWord(Head(kList, items.size()));
    for (size_t i = 0; i < items.size() && refusal_ == nullptr; ++i) Add(items[i]);
    return;
  }
  if (value.isString()) {
    const std::string_view text = value.toStringView();
    AddWord(Head(kText, text.size()));
    for (size_t i = 0; i < text.size(); i += 8) {
      uint64_t word = 0;
      for (size_t k = i; k < std::min(i + 8, text.size()); ++k) {
        word |= uint64_t{static_cast<uint8_t>(text[k])} << (8 * (k - i));
      }
      AddWord(word);
    }
    return;
  }
  if (value.isDevice()) {
    return AddWord(Head(kDeviceType, static_cast<uint64_t>(value.toDevice().type())));
  }
  if (value.isGenerator()) {
    // A program draws from the device's own generator.
    if (value.toGenerator() == DefaultGenerator()) return AddWord(Head(kNone));
    refusal_ = "it draws random numbers from a generator of its own";
    return;
  }
  refusal_ = value.isComplexDouble() ? "it calculates with a complex number"
                                     : "it has an argument that no captured graph can hold";
}

void CallSignature::AddTensor(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (!IsPlain(tensor)) {
    refusal_ = "an argument is no plain tensor";
    return;
  }
  uint64_t shares = 0;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i]->unsafeGetTensorImpl() == &impl) return AddWord(Head(kSameAs, i));
    if (shares == 0 && tensors_[i]->storage().is_alias_of(impl.storage())) shares = i + 1;
  }
  tensors_.push_back(&tensor);
  const auto rank = static_cast<uint64_t>(impl.dim());
  const auto type = static_cast<uint64_t>(tensor.scalar_type());
  const uint64_t host = IsHpu(tensor) ? 0 : 1;
  AddWord(Head(kTensor, host << 40 | shares << 16 | type << 8 | rank));
  for (const int64_t size : impl.sizes()) AddWord(static_cast<uint64_t>(size));
  for (const int64_t stride : impl.strides()) AddWord(static_cast<uint64_t>(stride));
}

void CallSignature::AddDouble(double number) {
  if (where_ == Numbers::kBeside) {
    numbers_.push_back(number);
  } else {
    AddWord(std::bit_cast<uint64_t>(number));
  }
}

void CallSignature::AddNumber(const at::Tensor& number) {
  const at::ScalarType type = number.scalar_type();
  AddWord(Head(kNumber, static_cast<uint64_t>(type)));
  if (type == at::kDouble) {
    AddDouble(*number.const_data_ptr<double>());
  } else if (type == at::kLong) {
    AddWord(static_cast<uint64_t>(*number.const_data_ptr<int64_t>()));
  } else if (type == at::kBool) {
    AddWord(*number.const_data_ptr<bool>() ? 1 : 0);
  } else {
    refusal_ = "it calculates with a number that no captured graph can hold";
  }
}

}  // namespace hpu::torch_backend
