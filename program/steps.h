// The kinds of steps of a program's function: one struct each, and a row in `Step`.
//
// A kind describes its fields once (`Describe`), each by its meaning: an index of a recipe, the
// tensors that it reads or writes, a bounded text. The encoder, the decoder, the validator and
// TensorsInUse are visitors of that description (program/codec.cc, validate.cc, uses.cc), so that
// none of them can miss a field. A new kind also needs its struct and row here, a line of text in
// print.cc, its execution in backend/, and code that makes it in compiler_server/lowering/. A kind
// that an executor does not know is refused when the program is loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "graph/argument.h"

namespace hpu {

// The limit of an eager step's reason.
inline constexpr size_t kMaxReasonBytes = 1024;

// A persistent tensor of the recipe and the program tensor whose address it gets.
struct Binding {
  std::string tensor_name;
  uint32_t tensor = 0;   // index into ProgramFunction::tensors
  bool written = false;  // the recipe writes it
};

// Puts a recipe on the stream.
struct LaunchStep {
  static constexpr std::string_view kName = "launch";
  uint32_t recipe = 0;  // index into Program::recipes
  std::vector<Binding> bindings;

  template <typename Self, typename Fields>
  static void Describe(Self& step, Fields& fields) {
    fields.Recipe(step.recipe);
    fields.Bindings(step.bindings);
  }
};

// Runs one operator through PyTorch's dispatcher, because no recipe can hold it.
struct EagerStep {
  static constexpr std::string_view kName = "eager";
  std::string op;                 // "aten::lgamma"
  std::string overload;           // "" or "Tensor"
  std::vector<Argument> args;     // in schema order; the remaining ones have the schema's default
  std::vector<uint32_t> outputs;  // tensors with Placement::kEager
  std::string reason;             // shown to the user

  template <typename Self, typename Fields>
  static void Describe(Self& step, Fields& fields) {
    fields.Name(step.op);
    fields.Name(step.overload);
    fields.Arguments(step.args);
    fields.Makes(step.outputs);
    fields.Text(step.reason, kMaxReasonBytes);
  }
};

// Starts an operation of all ranks of a process group. It runs beside the steps that follow until a
// WaitStep ends it. Between the two, nothing touches its outputs and nothing writes its inputs.
struct CollectiveStep {
  static constexpr std::string_view kName = "collective";
  enum class Op : uint8_t {
    kAllReduce,
    kAllGather,
    kReduceScatter,
    kBroadcast,
    kAllToAll,
  };
  enum class ReduceOp : uint8_t { kNone, kSum, kAverage, kProduct, kMin, kMax };

  Op op = Op::kAllReduce;
  ReduceOp reduce_op = ReduceOp::kNone;
  std::string group;        // backend/torch/programs/group_names.h
  uint32_t group_size = 0;  // the number of ranks that the shapes are made for; 0 = any number
  int32_t root = -1;        // kBroadcast: rank in the group; else -1
  std::vector<uint32_t> inputs;
  // The k-th comes from the k-th input. It may lie in the same memory if the row says so.
  std::vector<uint32_t> outputs;
  std::vector<int64_t> input_splits;   // kAllToAll: rows to each rank; empty = equal
  std::vector<int64_t> output_splits;  // kAllToAll: rows from each rank

  template <typename Self, typename Fields>
  static void Describe(Self& step, Fields& fields) {
    fields.Enum(step.op, Op::kAllToAll);
    fields.Enum(step.reduce_op, ReduceOp::kMax);
    fields.Name(step.group);
    fields.Number(step.group_size);
    fields.Number(step.root);
    fields.Reads(step.inputs);
    fields.Writes(step.outputs);
    fields.Numbers(step.input_splits);
    fields.Numbers(step.output_splits);
  }
};

// Rows are in the order of CollectiveStep::Op: append only.
struct CollectiveRow {
  std::string_view name;
  bool reduces;  // needs a reduce_op
  bool has_root;
  bool is_sized;     // its shapes depend on the number of ranks
  bool is_in_place;  // its outputs can lie where its inputs do
};
inline constexpr CollectiveRow kCollectives[] = {
    {"all_reduce", true, false, false, true},     {"all_gather", false, false, true, false},
    {"reduce_scatter", true, false, true, false}, {"broadcast", false, true, false, true},
    {"all_to_all", false, false, false, false},
};
static_assert(std::size(kCollectives) == static_cast<size_t>(CollectiveStep::Op::kAllToAll) + 1);

// The steps that follow this one run after the collective of an earlier step has ended.
struct WaitStep {
  static constexpr std::string_view kName = "wait";
  uint32_t step = 0;  // index into ProgramFunction::steps, a CollectiveStep

  template <typename Self, typename Fields>
  static void Describe(Self& step, Fields& fields) {
    fields.Number(step.step);
  }
};

// A kind's number in bytes is its place here: append only.
using Step = std::variant<LaunchStep, EagerStep, CollectiveStep, WaitStep>;

// Visits the fields of a step of any kind, const or not.
template <typename AnyStep, typename Fields>
void DescribeStep(AnyStep& step, Fields& fields) {
  std::visit([&](auto& kind) { kind.Describe(kind, fields); }, step);
}

// Returns "launch" and the like.
inline std::string_view StepName(const Step& step) {
  return std::visit([](const auto& kind) { return kind.kName; }, step);
}

// The base class of visitors that need only a few kinds of fields.
struct NoFields {
  void Recipe(uint32_t) {}
  void Bindings(const std::vector<Binding>&) {}
  void Name(const std::string&) {}
  void Text(const std::string&, size_t /*limit*/) {}
  void Arguments(const std::vector<Argument>&) {}
  void Reads(const std::vector<uint32_t>&) {}
  void Writes(const std::vector<uint32_t>&) {}  // writes over existing memory
  void Makes(const std::vector<uint32_t>&) {}   // tensors with Placement::kEager
  template <typename E>
  void Enum(E, E /*last*/) {}
  template <typename T>
  void Number(T) {}
  void Numbers(const std::vector<int64_t>&) {}
};

// Calls `visit` with every tensor that must exist before a step: those that it reads, and memory
// that it writes.
template <typename Visit>
void ForEachTensorNeeded(const Step& step, const Visit& visit) {
  struct Fields : NoFields {
    explicit Fields(const Visit& given) : call(given) {}
    void Bindings(const std::vector<Binding>& bindings) {
      for (const Binding& binding : bindings) call(binding.tensor);
    }
    void Arguments(const std::vector<Argument>& arguments) {
      for (const Argument& argument : arguments) ForEachTensor(argument, call);
    }
    void Reads(const std::vector<uint32_t>& tensors) {
      for (uint32_t tensor : tensors) call(tensor);
    }
    void Writes(const std::vector<uint32_t>& tensors) { Reads(tensors); }
    const Visit& call;
  } fields(visit);
  DescribeStep(step, fields);
}

// Calls `visit` with every tensor that a step declares to make or write (an eager operator may
// write its arguments as well).
template <typename Visit>
void ForEachTensorWritten(const Step& step, const Visit& visit) {
  struct Fields : NoFields {
    explicit Fields(const Visit& given) : call(given) {}
    void Bindings(const std::vector<Binding>& bindings) {
      for (const Binding& binding : bindings) {
        if (binding.written) call(binding.tensor);
      }
    }
    void Writes(const std::vector<uint32_t>& tensors) {
      for (uint32_t tensor : tensors) call(tensor);
    }
    void Makes(const std::vector<uint32_t>& tensors) { Writes(tensors); }
    const Visit& call;
  } fields(visit);
  DescribeStep(step, fields);
}

}  // namespace hpu
