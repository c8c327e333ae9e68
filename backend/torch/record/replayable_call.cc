#include "backend/torch/record/replayable_call.h"

#include <algorithm>
#include <set>

#include "backend/runtime/stream.h"
#include "backend/torch/device/allocator.h"
#include "backend/torch/device/pending_storage.h"
#include "backend/torch/device/run_now.h"
#include "backend/torch/record/call_by_call.h"
#include "program/program.h"

namespace hpu::torch_backend {
namespace {

namespace py = pybind11;

int64_t BytesBefore(int64_t elements, at::ScalarType dtype) {
  return elements * static_cast<int64_t>(c10::elementSize(dtype));
}

bool FillsItsStorage(const at::Tensor& tensor) {
  return tensor.storage_offset() == 0 &&
         TensorForm(tensor).StorageBytes() == tensor.storage().nbytes();
}

bool IsLike(const at::Tensor& tensor, const TensorForm& form) {
  return IsHpu(tensor) && tensor.scalar_type() == form.dtype && tensor.sizes() == form.sizes &&
         tensor.strides() == form.strides;
}

at::Tensor FlatOver(const c10::Storage& storage) {
  return TensorForm(at::kByte, {static_cast<int64_t>(storage.nbytes())}, {1}).Over(storage, 0);
}

}  // namespace

at::Tensor StandInFor(const at::Tensor& tensor) {
  StartLeavingOutMemory();
  const TensorForm form(tensor);
  return form.Over(NewStandIn(form.StorageBytes()), 0);
}

ReplayableCall::ReplayableCall(const Recording& recording, const std::vector<uint32_t>& filled,
                               const std::vector<at::Tensor>& given,
                               const std::vector<at::Tensor>& results, bool differentiable) {
  for (const at::Tensor& tensor : given) {
    given_.push_back(
        {TensorForm(tensor), FillsItsStorage(tensor) ? c10::Storage() : tensor.storage()});
    given_storages_.push_back(tensor.storage().unsafeGetStorageImpl());
  }
  for (const uint32_t value : filled) {
    const c10::Storage& storage = recording.values()[value].storage;
    filled_storages_.push_back(storage.unsafeGetStorageImpl());
    filled_bytes_.push_back(storage.nbytes());
  }
  if (!recording.calls().empty()) {
    program_ = CompileRecording(recording, filled, {}, Results::kReturned);
    TORCH_CHECK(program_->program != nullptr,
                "the captured calls have no program: ", program_->refusal);
    for (const RecordedProgram::Input& input : program_->inputs) {
      const Recording::Value& value = recording.values()[input.value];
      if (value.kind == Recording::Value::Kind::kHost) {
        inputs_.push_back({.kept = value.host, .form = input.form});
      } else {
        inputs_.push_back(PlaceOf(value.storage, input.form, input.OffsetIn(recording)));
      }
    }
  }
  std::set<const c10::StorageImpl*> returned;
  for (const at::Tensor& result : results) {
    returned.insert(result.storage().unsafeGetStorageImpl());
    results_.push_back(PlaceOf(result.storage(), TensorForm(result), result.storage_offset()));
    if (results_.back().kind == Place::Kind::kKept) results_.back().kept = result;
  }
  for (size_t i = 0; i < filled.size(); ++i) {
    const c10::Storage& storage = recording.values()[filled[i]].storage;
    if (differentiable) {
      MakeStandIn(storage);
      made_.push_back(FlatOver(storage));
    } else if (!returned.contains(filled_storages_[i])) {
      others_.emplace_back(storage.getWeakStorageImpl());
      continue;
    }
    others_.emplace_back();
  }
  given_storages_.clear();
  filled_storages_.clear();
}

ReplayableCall::Place ReplayableCall::PlaceOf(const c10::Storage& storage, const TensorForm& form,
                                              int64_t offset) {
  const c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  const int64_t bytes = BytesBefore(offset, form.dtype);
  if (storage.nbytes() == 0) return {.kind = Place::Kind::kEmpty, .form = form};
  const auto made = std::ranges::find(filled_storages_, impl);
  if (made != filled_storages_.end()) {
    const auto index = static_cast<size_t>(made - filled_storages_.begin());
    return {.kind = Place::Kind::kMade, .index = index, .form = form, .offset = bytes};
  }
  const auto given = std::ranges::find(given_storages_, impl);
  if (given != given_storages_.end()) {
    const auto index = static_cast<size_t>(given - given_storages_.begin());
    given_[index].used = true;
    if (given_[index].storage) return {.kept = form.Over(storage, offset), .form = form};
    return {.kind = Place::Kind::kGiven, .index = index, .form = form, .offset = bytes};
  }
  return {.kept = form.Over(storage, offset), .form = form};
}

bool ReplayableCall::Fits(const std::vector<at::Tensor>& given) const {
  if (given.size() != given_.size()) return false;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given_[i].used) continue;
    const bool fits = given_[i].storage ? given[i].storage().is_alias_of(given_[i].storage)
                                        : IsLike(given[i], given_[i].form);
    if (!fits) return false;
  }
  return true;
}

std::optional<MadeByRun> ReplayableCall::Run(const std::vector<at::Tensor>& given) const {
  if (!Fits(given)) return std::nullopt;
  const auto over_given = [&](const Place& place) {
    const at::Tensor& tensor = given[place.index];
    const int64_t bytes = BytesBefore(tensor.storage_offset(), tensor.scalar_type()) + place.offset;
    return place.form.Over(tensor.storage(),
                           bytes / static_cast<int64_t>(c10::elementSize(place.form.dtype)));
  };
  std::vector<c10::Storage> filled;
  if (program_ != nullptr) {
    std::vector<at::Tensor> tensors;
    for (const Place& input : inputs_) {
      tensors.push_back(input.kind == Place::Kind::kGiven ? over_given(input) : input.kept);
    }
    c10::SmallVector<const at::Tensor*, 64> pointers;
    for (const at::Tensor& tensor : tensors) pointers.push_back(&tensor);
    runtime::QueueRecorded(&CurrentStream());
    const runtime::QueueingCall queueing(CurrentStream());
    for (const at::Tensor& tensor : tensors) {
      if (IsHpu(tensor)) BeforeAccess(tensor.storage(), "a captured call");
    }
    const CallsRunNow run_now;  // also those that are no recipes of the program
    CompiledFunction& function = program_->program->forward();
    pointers.resize(function.function().inputs.size(), nullptr);  // the generator's state
    std::vector<at::Tensor> outputs = function.Run(pointers);
    for (size_t i = 0; i < filled_bytes_.size(); ++i) {
      filled.push_back(NewPendingStorage(filled_bytes_[i]));
      FillStorage(filled.back(), std::move(outputs[i]));
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].kind != Place::Kind::kGiven || !function.function().inputs[i].mutated)
        continue;
      const at::Tensor& written = given[inputs_[i].index];
      if (!written.is_inference()) written.unsafeGetTensorImpl()->bump_version();
    }
  }
  MadeByRun made;
  for (const Place& place : results_) {
    switch (place.kind) {
      case Place::Kind::kGiven:
        made.first.push_back(over_given(place));
        break;
      case Place::Kind::kMade:
        made.first.push_back(place.form.Over(
            filled[place.index],
            place.offset / static_cast<int64_t>(c10::elementSize(place.form.dtype))));
        break;
      case Place::Kind::kEmpty:
        made.first.push_back(place.form.Over(NewPendingStorage(0), 0));
        break;
      case Place::Kind::kKept:
        made.first.push_back(place.kept);
        break;
    }
  }
  for (size_t i = 0; i < filled.size(); ++i) {
    if (!made_.empty()) made.second.push_back(FlatOver(filled[i]));
    if (!others_[i].has_value()) continue;
    const c10::Storage other(others_[i]->lock());
    if (other) other.set_data_ptr_noswap(filled[i].set_data_ptr(c10::DataPtr(nullptr, kHpuDevice)));
  }
  for (size_t i = 0; i < results_.size() && !made.second.empty(); ++i) {
    // A write to a result is one to the memory that the backward reads.
    if (results_[i].kind != Place::Kind::kMade || made.first[i].is_inference()) continue;
    at::TensorImpl* memory = made.second[results_[i].index].unsafeGetTensorImpl();
    memory->set_version_counter(made.first[i].unsafeGetTensorImpl()->version_counter());
  }
  return made;
}

std::vector<bool> ReplayableCall::uses() const {
  std::vector<bool> uses;
  for (const Given& given : given_) uses.push_back(given.used);
  return uses;
}

std::vector<bool> ReplayableCall::writes() const {
  std::vector<bool> writes(given_.size());
  if (program_ == nullptr) return writes;
  const ProgramFunction& function = program_->program->forward().function();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].kind == Place::Kind::kGiven && function.inputs[i].mutated) {
      writes[inputs_[i].index] = true;
    }
  }
  return writes;
}

std::vector<bool> ReplayableCall::fresh() const {
  std::set<size_t> seen;
  std::vector<bool> fresh;
  for (const Place& place : results_) {
    fresh.push_back(place.kind == Place::Kind::kMade && seen.insert(place.index).second);
  }
  return fresh;
}

std::string ReplayableCall::Text() const {
  return program_ == nullptr ? std::string() : PrintProgram(program_->program->program());
}

void BindReplayableCall(py::module_& module) {
  using ReleaseGil = py::call_guard<py::gil_scoped_release>;
  module.def("stand_in_for", &StandInFor);
  py::class_<ReplayableCall>(module, "ReplayableCall")
      .def("run", &ReplayableCall::Run, ReleaseGil())
      .def_property_readonly("uses", &ReplayableCall::uses)
      .def_property_readonly("writes", &ReplayableCall::writes)
      .def_property_readonly("fresh", &ReplayableCall::fresh)
      .def_property_readonly("made", &ReplayableCall::made)
      .def("text", &ReplayableCall::Text);
}

}  // namespace hpu::torch_backend
