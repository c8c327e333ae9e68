#include "backend/torch/record/recording.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "backend/torch/device/allocator.h"
#include "backend/torch/device/pending_storage.h"
#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {

using c10::IValue;

namespace {

using Parameter = Recording::Parameter;

// The words of a recording have its kind before the number of a storage that was made before it,
// and the size in bytes of one without elements, because a program that fills it has results of
// that size.
uint64_t KindWord(const Recording::Value& value) {
  const bool is_empty = value.kind == Recording::Value::Kind::kEmpty;
  return ~(is_empty ? 1 : 2 + static_cast<uint64_t>(value.parameter));
}

// A view of a parameter counts as one. What the device computes from fixed ones alone is kept from
// run to run.
Parameter ParameterOf(const at::Tensor& tensor) {
  const at::Tensor owner = tensor.is_view() ? at::Tensor(tensor._base()) : tensor;
  if (!owner.requires_grad() || !owner.is_leaf()) return Parameter::kNone;
  return at::GradMode::is_enabled() ? Parameter::kTrained : Parameter::kFixed;
}

// Returns whether somebody beside the recording holds the storage.
bool IsHeld(const Recording::Value& value) {
  return value.storage.use_count() > 1 && value.storage.nbytes() > 0;
}

int64_t DistanceIn(const Recording::Value& value, const TensorForm& form, int64_t offset) {
  return offset * static_cast<int64_t>(c10::elementSize(form.dtype)) - value.first_byte;
}

size_t NewResults(const CallRule& rule) {
  return static_cast<size_t>(
      std::ranges::count(rule.results, CallRule::Result::Kind::kNew, &CallRule::Result::kind));
}

}  // namespace

Recording::~Recording() {
  if (!values_.empty()) Lose("the recorded calls that make it were given up");
}

uint32_t Recording::AddPending(Value::Kind kind, c10::Storage storage) {
  const auto place = static_cast<uint32_t>(values_.size());
  if (PendingMemory* pending = PendingOf(*storage.unsafeGetStorageImpl())) {
    pending->recording = this;
    pending->value = place;
  }
  values_.push_back({kind, std::move(storage), {}});
  return place;
}

uint32_t Recording::ValueOf(const at::Tensor& tensor) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  if (const PendingMemory* pending = PendingOf(*storage); pending && !pending->stand_in) {
    if (pending->recording == this) return pending->value;
    TORCH_CHECK(pending->lost == nullptr, "this tensor has no value: ", *pending->lost);
    if (!is_capture_ || pending->capture == this) {
      NoteStorage({Value::Kind::kEmpty, tensor.storage(), {}});
      return AddPending(Value::Kind::kEmpty, tensor.storage());
    }
    storage->set_data_ptr_noswap(GetDeviceAllocator().allocate(storage->nbytes()));
  }
  const auto known = inputs_.find(storage);
  if (known != inputs_.end()) return known->second;
  return AddInput(
      {.kind = Value::Kind::kInput,
       .storage = tensor.storage(),
       .parameter = ParameterOf(tensor),
       .first_byte = tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize())});
}

void Recording::NoteStorage(const Value& value) {
  words_.push_back(KindWord(value));
  if (value.kind == Value::Kind::kEmpty) words_.push_back(value.storage.nbytes());
}

void Recording::AddOperand(const CallRule& rule, size_t tensor, const Operand& operand) {
  words_.push_back(operand.value);
  words_.push_back(static_cast<uint64_t>(
      DistanceIn(values_[operand.value], rule.tensors[tensor], operand.offset)));
  operands_.push_back(operand);
}

int64_t Recording::DistanceOf(const Call& call, size_t tensor) const {
  const Operand& at = operand(call, tensor);
  return DistanceIn(values_[at.value], call.rule->tensors[tensor], at.offset);
}

uint32_t Recording::AddInput(Value value) {
  const auto place = static_cast<uint32_t>(values_.size());
  inputs_.emplace(value.storage.unsafeGetStorageImpl(), place);
  NoteStorage(value);
  values_.push_back(std::move(value));
  return place;
}

std::vector<IValue> Recording::Add(std::shared_ptr<const CallRule> rule, const CallSignature& call,
                                   uint32_t line) {
  words_.push_back(rule->id);
  const size_t first_operand = operands_.size();
  const size_t known_values = values_.size();
  for (size_t i = 0; i < call.tensors().size(); ++i) {
    const at::Tensor& tensor = *call.tensors()[i];
    Operand operand{0, tensor.storage_offset()};
    if (rule->on_host[i]) {
      // The caller may change it before the call runs.
      operand.value = static_cast<uint32_t>(values_.size());
      operand.offset = 0;
      values_.push_back({Value::Kind::kHost, {}, tensor.clone()});
    } else {
      operand.value = ValueOf(tensor);
    }
    AddOperand(*rule, i, operand);
  }
  // Autograd runs a backward without gradients, too, unless they have gradients themselves.
  const bool apart =
      !at::GradMode::is_enabled() && torch::autograd::get_current_graph_task_id() < 0;
  const bool fills = rule->fills_argument && operands_.back().value >= known_values &&
                     IsEmptyStorage(*call.tensors()[0], operands_.back());
  if (fills) fills_.push_back(static_cast<uint32_t>(calls_.size()));
  for (const size_t i : rule->written) {
    if (!fills) values_[operands_[first_operand + i].value].written = true;
    const at::Tensor& tensor = *call.tensors()[i];
    updates_parameters_ |= apart && tensor.requires_grad() && tensor.is_leaf();
  }
  const size_t first_number = numbers_.size();
  numbers_.insert(numbers_.end(), call.numbers().begin(), call.numbers().end());
  const auto first_result = static_cast<uint32_t>(values_.size());
  size_t next = 0;
  const auto make = [&]() -> at::Tensor {
    const CallRule::Result& result = rule->results[next++];
    if (result.kind == CallRule::Result::Kind::kUndefined) return {};
    if (result.kind == CallRule::Result::Kind::kArgument) return *call.tensors()[result.tensor];
    c10::Storage storage = NewPendingStorage(result.form.StorageBytes());
    AddPending(Value::Kind::kMade, storage);
    return result.form.Over(std::move(storage), 0);
  };
  std::vector<IValue> results;
  results.reserve(rule->lengths.size());
  for (const int64_t length : rule->lengths) {
    if (length < 0) {
      results.emplace_back(make());
      continue;
    }
    c10::List<at::Tensor> list;
    for (int64_t i = 0; i < length; ++i) list.push_back(make());
    results.emplace_back(std::move(list));
  }
  calls_.push_back({std::move(rule), first_operand, first_number, apart, first_result, line});
  return results;
}

bool Recording::IsEmptyStorage(const at::Tensor& tensor, const Operand& operand) const {
  const Value& value = values_[operand.value];
  return value.kind == Value::Kind::kEmpty && operand.offset == 0 &&
         tensor.is_non_overlapping_and_dense() && tensor.nbytes() == value.storage.nbytes();
}

std::vector<uint32_t> Recording::NumbersOfUpdates() const {
  std::vector<uint32_t> numbers;
  if (!updates_parameters_) return numbers;
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (!calls_[i].apart_from_autograd) continue;
    for (size_t number = calls_[i].first_number; number < EndOfNumbers(i); ++number) {
      numbers.push_back(static_cast<uint32_t>(number));
    }
  }
  return numbers;
}

std::vector<uint32_t> Recording::StateFills() const {
  std::vector<uint32_t> fills;
  for (const uint32_t call : fills_) {
    const Value& value = values_[operand(calls_[call], 0).value];
    if (value.written && IsHeld(value)) fills.push_back(call);
  }
  return fills;
}

uint32_t Recording::Take(Value value) {
  if (value.kind == Value::Kind::kInput) return AddInput(std::move(value));
  const auto place = static_cast<uint32_t>(values_.size());
  if (value.kind == Value::Kind::kEmpty) NoteStorage(value);
  if (value.kind != Value::Kind::kHost) {
    if (PendingMemory* pending = PendingOf(*value.storage.unsafeGetStorageImpl())) {
      pending->recording = this;
      pending->value = place;
    }
  }
  values_.push_back(std::move(value));
  return place;
}

std::unique_ptr<Recording> Recording::Without(const std::vector<uint32_t>& calls) {
  auto rest = std::make_unique<Recording>(is_capture_);
  std::vector<std::optional<uint32_t>> places(values_.size());
  const auto place_of = [&](uint32_t value) {
    if (!places[value].has_value()) places[value] = rest->Take(std::move(values_[value]));
    return *places[value];
  };
  for (const uint32_t call : calls)
    values_[operand(calls_[call], 0).value].kind = Value::Kind::kInput;
  for (uint32_t i = 0; i < calls_.size(); ++i) {
    if (std::ranges::binary_search(calls, i)) continue;
    Call call = calls_[i];
    rest->words_.push_back(call.rule->id);
    const size_t first_operand = rest->operands_.size();
    for (size_t k = 0; k < call.rule->tensors.size(); ++k) {
      const Operand& old = operand(call, k);
      rest->AddOperand(*call.rule, k, {place_of(old.value), old.offset});
    }
    const auto first_result = static_cast<uint32_t>(rest->values_.size());
    for (size_t k = 0; k < NewResults(*call.rule); ++k) place_of(call.first_result + k);
    const size_t first_number = rest->numbers_.size();
    rest->numbers_.insert(rest->numbers_.end(), numbers_.begin() + call.first_number,
                          numbers_.begin() + EndOfNumbers(i));
    call.first_operand = first_operand;
    call.first_number = first_number;
    call.first_result = first_result;
    rest->calls_.push_back(std::move(call));
  }
  rest->updates_parameters_ = updates_parameters_;
  values_.clear();
  calls_.clear();
  return rest;
}

size_t Recording::EndOfNumbers(size_t call) const {
  return call + 1 < calls_.size() ? calls_[call + 1].first_number : numbers_.size();
}

bool Recording::Touches(const c10::StorageImpl& storage) const {
  if (const PendingMemory* pending = PendingOf(storage)) return pending->recording == this;
  return inputs_.contains(&storage);
}

void Recording::LoseValue(const Value& value, std::shared_ptr<const std::string> reason) const {
  if (value.kind != Value::Kind::kMade && value.kind != Value::Kind::kEmpty) return;
  PendingMemory* pending = PendingOf(*value.storage.unsafeGetStorageImpl());
  if (pending == nullptr || pending->recording != this) return;
  pending->recording = nullptr;
  pending->lost = std::move(reason);
}

void Recording::Lose(const std::string& reason) {
  const auto shared = std::make_shared<const std::string>(reason);
  for (const Value& value : values_) LoseValue(value, shared);
}

void Recording::LoseResults(const Call& call, const std::string& reason) {
  const auto shared = std::make_shared<const std::string>(reason);
  uint32_t value = call.first_result;
  for (const CallRule::Result& result : call.rule->results) {
    if (result.kind == CallRule::Result::Kind::kNew) LoseValue(values_[value++], shared);
  }
}

std::vector<uint32_t> Recording::HeldValues() const {
  std::vector<uint32_t> held;
  for (uint32_t i = 0; i < values_.size(); ++i) {
    const Value& value = values_[i];
    const bool filled = value.kind == Value::Kind::kMade || value.kind == Value::Kind::kEmpty;
    if (filled && IsHeld(value)) held.push_back(i);
  }
  return held;
}

std::vector<uint32_t> Recording::GiveMemoryToParts() {
  std::vector<bool> whole(values_.size());
  for (const Call& call : calls_) {
    for (size_t i = 0; i < call.rule->tensors.size(); ++i) {
      const uint32_t value = operand(call, i).value;
      const Value& touched = values_[value];
      if (touched.kind != Value::Kind::kEmpty) continue;
      if (call.rule->tensors[i].StorageBytes() >= touched.storage.nbytes()) whole[value] = true;
    }
  }
  std::vector<uint32_t> given;
  for (uint32_t i = 0; i < values_.size(); ++i) {
    Value& value = values_[i];
    if (value.kind != Value::Kind::kEmpty || whole[i] || !IsHeld(value)) continue;
    value.storage.set_data_ptr_noswap(GetDeviceAllocator().allocate(value.storage.nbytes()));
    value.kind = Value::Kind::kInput;
    given.push_back(i);
  }
  return given;
}

std::vector<at::Tensor> Recording::TensorsOf(const Call& call) const {
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < call.rule->tensors.size(); ++i) {
    const Operand& at = operand(call, i);
    const Value& value = values_[at.value];
    tensors.push_back(value.kind == Value::Kind::kHost
                          ? value.host
                          : call.rule->tensors[i].Over(value.storage, at.offset));
  }
  return tensors;
}

}  // namespace hpu::torch_backend
