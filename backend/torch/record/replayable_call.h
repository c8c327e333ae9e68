// A captured call of a function, which is run again with other tensors. Unlike the operators of an
// HPUGraph it has no memory of its own: every run reads the tensors that it is given in their
// place, and makes new results.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/torch/pytorch/unstable_torch.h"
#include "backend/torch/record/recorded_program.h"
#include "backend/torch/record/recording.h"

namespace hpu::torch_backend {

// Returns a tensor that stands for one like `tensor` in a capture. It has no memory, and an error
// is raised where its elements are needed.
at::Tensor StandInFor(const at::Tensor& tensor);

// Returns the lists of tensors that a run makes: the results and, for a differentiable call, all
// memory that its operators filled and the backward may need.
using MadeByRun = std::pair<std::vector<at::Tensor>, std::vector<at::Tensor>>;

class ReplayableCall {
 public:
  // `given` are the tensors of the captured call that are others at later runs; `results` are the
  // results of the call. `differentiable`: autograd keeps tensors of the call for its backward.
  // Throws if there is no program.
  ReplayableCall(const Recording& recording, const std::vector<uint32_t>& filled,
                 const std::vector<at::Tensor>& given, const std::vector<at::Tensor>& results,
                 bool differentiable);

  // Runs the call on the current stream. Returns nothing if the tensors differ from the captured
  // ones in sizes, strides or types; those that the call does not use may be any.
  std::optional<MadeByRun> Run(const std::vector<at::Tensor>& given) const;

  // By given tensor: whether the call uses it.
  std::vector<bool> uses() const;
  // By given tensor: whether the call writes to it.
  std::vector<bool> writes() const;
  // By result: whether nothing else has its memory.
  std::vector<bool> fresh() const;
  // The memory that the second list of a run has, at the time of the capture. It stands for that of
  // later runs.
  const std::vector<at::Tensor>& made() const { return made_; }
  // Returns the program as text.
  std::string Text() const;

 private:
  struct Given {
    TensorForm form;
    c10::Storage storage;  // of a tensor that does not fill its storage: it must stay the same one
    bool used = false;
  };
  // The place at which a tensor of the program is found.
  struct Place {
    enum class Kind : uint8_t { kGiven, kMade, kKept, kEmpty };
    Kind kind = Kind::kKept;
    size_t index = 0;    // kGiven; kMade: among the filled values
    at::Tensor kept;     // kKept
    TensorForm form;     // of the others
    int64_t offset = 0;  // in bytes: from the given tensor's first element, or in the storage
  };

  Place PlaceOf(const c10::Storage& storage, const TensorForm& form, int64_t offset);
  bool Fits(const std::vector<at::Tensor>& given) const;

  std::shared_ptr<const RecordedProgram> program_;
  std::vector<Given> given_;
  std::vector<const c10::StorageImpl*> given_storages_;  // only during the construction
  std::vector<const c10::StorageImpl*> filled_storages_;
  std::vector<Place> inputs_;   // of the program
  std::vector<Place> results_;  // of the call
  std::vector<size_t> filled_bytes_;
  // By filled value of a call that is not differentiable: the storage that it has filled, where
  // somebody may hold it who does not get the results.
  std::vector<std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>>> others_;
  std::vector<at::Tensor> made_;
};

// Adds the class ReplayableCall.
void BindReplayableCall(pybind11::module_& module);

}  // namespace hpu::torch_backend
