#include "program/validate_steps.h"

#include <algorithm>
#include <map>

namespace hpu {
namespace {

// Returns -1 if there are more elements than a number can hold (an expanded tensor may claim that).
int64_t Elements(const TensorSpec& spec) {
  int64_t elements = 1;
  for (int64_t size : spec.sizes) {
    if (__builtin_mul_overflow(elements, size, &elements)) return -1;
  }
  return elements;
}

// Checks what must hold for a field wherever it occurs. The first error sticks.
class FieldCheck {
 public:
  FieldCheck(const Program& program, const ProgramFunction& function, const std::string& what)
      : program_(program), function_(function), what_(what) {}
  const absl::Status& status() const { return status_; }

  void Recipe(uint32_t recipe) {
    if (recipe >= program_.recipes.size()) Fail(DataLoss(what_, ": no recipe ", recipe));
  }
  void Bindings(const std::vector<Binding>& bindings) {
    for (const Binding& binding : bindings) {
      Name(binding.tensor_name);
      if (Exists(binding.tensor) && binding.written) Writable(binding.tensor);
    }
  }
  void Name(const std::string& name) { Fail(CheckName(name, what_)); }
  void Text(const std::string& text, size_t limit) {
    if (text.size() > limit) {
      Fail(DataLoss(what_, ": text of ", text.size(), " bytes, at most ", limit));
    }
  }
  void Arguments(const std::vector<Argument>& arguments) {
    for (const Argument& argument : arguments) Value(argument);
  }
  void Reads(const std::vector<uint32_t>& tensors) {
    for (uint32_t tensor : tensors) Exists(tensor);
  }
  void Writes(const std::vector<uint32_t>& tensors) {
    for (uint32_t tensor : tensors) {
      if (Exists(tensor)) Writable(tensor);
    }
  }
  void Makes(const std::vector<uint32_t>& tensors) {
    for (uint32_t tensor : tensors) {
      if (Exists(tensor) && function_.tensors[tensor].placement != Placement::kEager) {
        Fail(DataLoss(what_, ": output ", tensor, " is not an eager tensor"));
      }
    }
  }
  template <typename E>
  void Enum(E value, E last) {
    if (value > last) {
      Fail(DataLoss(what_, ": enum value ", static_cast<int>(value), " out of range"));
    }
  }
  template <typename T>
  void Number(T) {}
  void Numbers(const std::vector<int64_t>&) {}

 private:
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  bool Exists(uint32_t tensor) {
    if (tensor < function_.tensors.size()) return true;
    Fail(DataLoss(what_, ": no tensor ", tensor));
    return false;
  }
  void Writable(uint32_t tensor) {
    const ProgramTensor& entry = function_.tensors[tensor];
    if (entry.placement == Placement::kConstant) {
      Fail(DataLoss(what_, ": writes constant ", entry.index));
    } else if (entry.placement == Placement::kInput && !function_.inputs[entry.index].mutated) {
      Fail(DataLoss(what_, ": writes input ", entry.index, ", which is not marked as mutated"));
    }
  }
  void Value(const Argument& argument) {
    Fail(CheckArgument(argument, function_.tensors.size(), what_));
  }

  const Program& program_;
  const ProgramFunction& function_;
  const std::string& what_;
  absl::Status status_;
};

absl::Status CheckSplits(const std::vector<int64_t>& splits, uint32_t ranks, const TensorSpec& spec,
                         const std::string& what) {
  if (splits.empty()) return absl::OkStatus();
  if (spec.sizes.empty() || (ranks != 0 && splits.size() != ranks)) {
    return DataLoss(what, ": ", splits.size(), " splits for ", ranks, " ranks");
  }
  int64_t left = spec.sizes[0];
  for (int64_t rows : splits) {
    if (rows < 0 || rows > left) return DataLoss(what, ": splits do not add up");
    left -= rows;
  }
  return left == 0 ? absl::OkStatus() : DataLoss(what, ": splits do not add up");
}

// Checks the elements of an output against those of its input.
absl::Status CheckSizes(const CollectiveStep& step, const TensorSpec& in, const TensorSpec& out,
                        const std::string& what) {
  using Op = CollectiveStep::Op;
  if (in.dtype != out.dtype) return DataLoss(what, ": input and output differ in dtype");
  const int64_t ranks = step.group_size;
  const int64_t given = Elements(in), made = Elements(out);
  bool fits = given == made && given >= 0;
  if (step.op == Op::kAllGather) fits = made / ranks == given && made % ranks == 0;
  if (step.op == Op::kReduceScatter) fits = given / ranks == made && given % ranks == 0;
  if (step.op == Op::kAllToAll) {
    fits = true;
    RETURN_IF_ERROR(CheckSplits(step.input_splits, step.group_size, in, what));
    RETURN_IF_ERROR(CheckSplits(step.output_splits, step.group_size, out, what));
  }
  if (fits) return absl::OkStatus();
  return DataLoss(what, ": ", given, " elements in and ", made, " out for ", ranks, " ranks");
}

// Checks what a kind requires beyond its fields; most require nothing.
absl::Status CheckKind(const ProgramFunction&, const auto&, const std::string&) {
  return absl::OkStatus();
}

absl::Status CheckKind(const ProgramFunction& function, const CollectiveStep& step,
                       const std::string& what) {
  using ReduceOp = CollectiveStep::ReduceOp;
  const CollectiveRow& row = kCollectives[static_cast<size_t>(step.op)];
  if (step.group.empty() || step.group_size > INT32_MAX) {
    return DataLoss(what, ": ", row.name, " without a group");
  }
  if (row.is_sized && step.group_size == 0) {
    return DataLoss(what, ": ", row.name, " for an unknown number of ranks");
  }
  if (row.reduces != (step.reduce_op != ReduceOp::kNone)) {
    return DataLoss(what, ": ", row.name, row.reduces ? " without" : " with", " a reduction");
  }
  const auto ranks = static_cast<int32_t>(step.group_size);
  const bool in_group = step.root >= 0 && (ranks == 0 || step.root < ranks);
  if (row.has_root ? !in_group : step.root != -1) {
    return DataLoss(what, ": ", row.name, " with root ", step.root, " of ", ranks, " ranks");
  }
  if (step.inputs.empty() || step.inputs.size() != step.outputs.size()) {
    return DataLoss(what, ": ", row.name, " with ", step.inputs.size(), " inputs and ",
                    step.outputs.size(), " outputs");
  }
  if (step.op != CollectiveStep::Op::kAllToAll &&
      !(step.input_splits.empty() && step.output_splits.empty())) {
    return DataLoss(what, ": ", row.name, " with splits");
  }
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    RETURN_IF_ERROR(CheckSizes(step, function.tensors[step.inputs[i]].spec,
                               function.tensors[step.outputs[i]].spec, what));
  }
  return absl::OkStatus();
}

// Eager tensors exist once they have been made, and each is made once.
class Lifetimes {
 public:
  explicit Lifetimes(const ProgramFunction& function)
      : function_(function), made_(function.tensors.size()) {}

  absl::Status Step(const hpu::Step& step, const std::string& what) {
    absl::Status status;
    const auto fail = [&](absl::Status error) {
      if (status.ok()) status = std::move(error);
    };
    ForEachTensorNeeded(step, [&](uint32_t tensor) {
      if (!Exists(tensor)) fail(DataLoss(what, ": tensor ", tensor, " is used before it is made"));
    });
    struct Made : NoFields {
      void Makes(const std::vector<uint32_t>& outputs) { tensors = &outputs; }
      const std::vector<uint32_t>* tensors = nullptr;
    } made;
    DescribeStep(step, made);
    if (made.tensors == nullptr) return status;
    for (uint32_t tensor : *made.tensors) {
      if (made_[tensor]) fail(DataLoss(what, ": tensor ", tensor, " is made a second time"));
      made_[tensor] = true;
    }
    return status;
  }
  bool Exists(uint32_t tensor) const {
    return function_.tensors[tensor].placement != Placement::kEager || made_[tensor];
  }

 private:
  const ProgramFunction& function_;
  std::vector<bool> made_;
};

// The collectives that have started and have not been waited for.
class InFlight {
 public:
  absl::Status Step(uint32_t index, const hpu::Step& step, const std::string& what) {
    if (const auto* wait = std::get_if<WaitStep>(&step)) {
      const auto started = under_way_.find(wait->step);
      if (started == under_way_.end()) {
        return DataLoss(what, ": step ", wait->step, " is not a collective under way");
      }
      under_way_.erase(started);
      return absl::OkStatus();
    }
    for (const auto& [number, collective] : under_way_) {
      bool touched = false;
      ForEachTensorNeeded(step, [&](uint32_t t) { touched |= Has(collective->outputs, t); });
      ForEachTensorWritten(step, [&](uint32_t t) { touched |= Has(collective->inputs, t); });
      if (touched) {
        return DataLoss(what, ": touches a tensor that the collective of step ", number, " uses");
      }
    }
    if (const auto* collective = std::get_if<CollectiveStep>(&step)) under_way_[index] = collective;
    return absl::OkStatus();
  }
  absl::Status End() const {
    if (under_way_.empty()) return absl::OkStatus();
    return DataLoss("step ", under_way_.begin()->first, ": nothing waits for this collective");
  }

 private:
  static bool Has(const std::vector<uint32_t>& tensors, uint32_t tensor) {
    return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
  }
  std::map<uint32_t, const CollectiveStep*> under_way_;
};

}  // namespace

absl::Status CheckName(const std::string& name, std::string_view what) {
  if (name.size() <= kMaxNameBytes) return absl::OkStatus();
  return DataLoss(what, ": name of ", name.size(), " bytes, at most ", kMaxNameBytes);
}

absl::Status ValidateSteps(const Program& program, const ProgramFunction& function) {
  Lifetimes lifetimes(function);
  InFlight in_flight;
  for (uint32_t i = 0; i < function.steps.size(); ++i) {
    const Step& step = function.steps[i];
    const std::string what = "step " + std::to_string(i);
    FieldCheck fields(program, function, what);
    DescribeStep(step, fields);
    RETURN_IF_ERROR(fields.status());
    RETURN_IF_ERROR(
        std::visit([&](const auto& kind) { return CheckKind(function, kind, what); }, step));
    RETURN_IF_ERROR(lifetimes.Step(step, what));
    RETURN_IF_ERROR(in_flight.Step(i, step, what));
  }
  RETURN_IF_ERROR(in_flight.End());
  for (size_t i = 0; i < function.outputs.size(); ++i) {
    const ProgramOutput& output = function.outputs[i];
    if (output.kind == ProgramOutput::Kind::kTensor && !lifetimes.Exists(output.index)) {
      return DataLoss("output ", i, ": no step makes tensor ", output.index);
    }
  }
  return absl::OkStatus();
}

}  // namespace hpu
