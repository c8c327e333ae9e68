#include "backend/torch/record/recording.h"

#include <utility>

#include "backend/torch/device/allocator.h"
#include "backend/torch/device/pending_storage.h"

namespace hpu::torch_backend {

using c10::IValue;

namespace {

constexpr uint64_t kWeightMark = ~uint64_t{1};

// A parameter or a view of one. What the device computes from it alone is kept from run to run,
// which would cost memory where the parameter changes with every run.
bool IsWeight(const at::Tensor& tensor) {
  if (at::GradMode::is_enabled()) return false;
  const at::Tensor owner = tensor.is_view() ? at::Tensor(tensor._base()) : tensor;
  return owner.requires_grad() && owner.is_leaf();
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
  values_.push_back({kind, std::move(storage), {}, false});
  return place;
}

uint32_t Recording::ValueOf(const at::Tensor& tensor) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  if (const PendingMemory* pending = PendingOf(*storage)) {
    if (pending->recording == this) return pending->value;
    TORCH_CHECK(pending->lost == nullptr, "this tensor has no value: ", *pending->lost);
    if (!is_capture_ || pending->capture == this) {
      return AddPending(Value::Kind::kEmpty, tensor.storage());
    }
    storage->set_data_ptr_noswap(GetDeviceAllocator().allocate(storage->nbytes()));
  }
  const auto [entry, is_new] = inputs_.try_emplace(storage, static_cast<uint32_t>(values_.size()));
  if (is_new) {
    values_.push_back({Value::Kind::kInput, tensor.storage(), {}, IsWeight(tensor)});
    if (values_.back().weight) words_.push_back(kWeightMark);
  }
  return entry->second;
}

std::vector<IValue> Recording::Add(std::shared_ptr<const CallRule> rule,
                                   const CallSignature& call) {
  words_.push_back(rule->id);
  const size_t first_operand = operands_.size();
  for (size_t i = 0; i < call.tensors().size(); ++i) {
    const at::Tensor& tensor = *call.tensors()[i];
    Operand operand{0, tensor.storage_offset()};
    if (rule->on_host[i]) {
      // The caller may change it before the call runs.
      operand.value = static_cast<uint32_t>(values_.size());
      operand.offset = 0;
      values_.push_back({Value::Kind::kHost, {}, tensor.clone(), false});
    } else {
      operand.value = ValueOf(tensor);
    }
    words_.push_back(operand.value);
    words_.push_back(static_cast<uint64_t>(operand.offset));
    operands_.push_back(operand);
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
  calls_.push_back({std::move(rule), first_operand, first_number, first_result});
  return results;
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
    if (filled && value.storage.use_count() > 1 && value.storage.nbytes() > 0) held.push_back(i);
  }
  return held;
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
