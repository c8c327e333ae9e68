// A program is the answer to one captured graph. It has functions (a forward, and for training its
// backward) of launches of recipes and eager ops in order, and says how inputs and outputs bind,
// which of them are mutated or aliased, and what the backward takes from the forward. The compile
// server writes it, the client verifies and carries it, and backend/ executes it. It is a container
// of our own and not a protobuf message because the executor lives beside libtorch, where no
// protobuf may be (ARCHITECTURE.md). The name of a program is not part of it: equal programs of two
// graphs have equal bytes.
//
// Sizes, strides and offsets are in elements and in PyTorch dimension order (outermost first).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/status.h"
#include "graph/alias_form.h"
#include "graph/tensor_spec.h"
#include "program/steps.h"

namespace hpu {

// The input of a function.
struct ProgramInput {
  enum class Kind : uint8_t {
    kTensor = 0,
    kScalar = 1,  // int, float, bool: specialised into the graph and ignored
    // State of the device's random number generator, which the function reads as 0-d tensors in the
    // device's memory: its seed, and where this call's numbers start in the stream of the seed.
    kSeed = 2,
    kOffset = 3,
  };
  Kind kind = Kind::kTensor;
  // kTensor: dtype, sizes and strides are checked at every call; storage_offset is ignored (the
  // address of the first element is taken per call). kScalar: empty. Other kinds are 0-d.
  TensorSpec spec;
  bool mutated = false;  // some step writes it; its version counter is bumped
  bool on_cpu = false;   // a CPU tensor (0-d wrapped numbers): copied to the device per call
  uint64_t draws = 0;    // kOffset: by how much a call advances the generator's offset
};

// The memory in which the elements of a program tensor lie.
enum class Placement : uint8_t {
  kInput = 0,     // index = input; offset counts from the input's first element
  kBuffer = 1,    // index = buffer allocated by the executor for this call
  kConstant = 2,  // index = constant carried by the program, copied to the device once
  kEager = 3,     // made by a step; index unused; strides must match those of the result
};

struct ProgramTensor {
  Placement placement = Placement::kBuffer;
  uint32_t index = 0;
  TensorSpec spec;
};

struct ProgramConstant {
  TensorSpec spec;  // contiguous
  Bytes data;
};

struct ProgramOutput {
  enum class Kind : uint8_t {
    kTensor = 0,     // index into tensors; a fresh tensor over its buffer (strides as in the spec).
                     // Two outputs over one buffer share storage.
    kInput = 1,      // input `index` itself, the same object
    kInputView = 2,  // view of input `index` with `view` (storage_offset from its first element)
    kNone = 3,
    kInt = 4,
    kFloat = 5,
    kBool = 6,
  };
  Kind kind = Kind::kNone;
  uint32_t index = 0;
  TensorSpec view;                    // kInputView
  AliasForm form = AliasForm::kView;  // kInputView: one of the views or kDetached
  int64_t int_value = 0;              // kInt, kBool
  double float_value = 0;
  bool returned = true;  // false: the caller does not get it, and it is saved for the backward
  bool requires_grad = false;  // differentiable; if false, it is marked so that autograd knows
};

struct ProgramFunction {
  std::string name = "forward";  // the part: "forward", "backward"; unique in the program
  std::vector<ProgramInput> inputs;
  std::vector<uint64_t> buffer_bytes;  // allocated per call, 128-byte aligned
  std::vector<ProgramTensor> tensors;
  std::vector<Step> steps;
  std::vector<ProgramOutput> outputs;
  // For reports: nodes of the captured graph, and how many of them run eagerly.
  uint32_t node_count = 0;
  uint32_t eager_node_count = 0;
};

// A value that the forward computes and the backward takes: a tensor, or the state of random
// numbers that must be drawn again.
struct SavedValue {
  uint32_t output = 0;  // of the forward
  uint32_t input = 0;   // of the backward; nothing else fills it
  // No one else holds it: once its last reader has run, its memory may be reused, unless the graph
  // is retained.
  bool donated = false;
};

// A value of the forward and its gradient, which is a value of the backward.
struct GradientPair {
  uint32_t forward = 0;   // tangent: an output; gradient: an input
  uint32_t backward = 0;  // tangent: an input; gradient: an output
};

struct RecipeRef {
  Digest digest{};  // SHA-256 of the serialised recipe
  uint64_t size_bytes = 0;
};

struct Program {
  std::vector<ProgramFunction>
      functions;  // the forward, which a call runs, and its backward if any
  std::vector<SavedValue> saved;
  // Gradients of outputs, which are inputs of the backward (zeros where undefined).
  std::vector<GradientPair> tangents;
  // Gradients of inputs, which are outputs of the backward; the other inputs have none.
  std::vector<GradientPair> gradients;
  std::vector<ProgramConstant> constants;
  std::vector<RecipeRef> recipes;
  bool deterministic = false;  // compiled in PyTorch's deterministic mode
};

// By tensor: whether a step needs it or it is an output. All other results of a step are dropped;
// their sizes may even differ from the captured ones (a meta function need not report the sizes of
// such results).
std::vector<bool> TensorsInUse(const ProgramFunction& function);

// A container (base/container.h) of kind "HPUPROG\0". Decode checks every index (a decoded program
// is safe to execute as far as indices go); foreign or damaged bytes give DATA_LOSS, another
// version UNIMPLEMENTED. Every program has exactly one encoding: bytes that decode are encoded to
// the same bytes again.
inline constexpr uint32_t kProgramVersion = 4;
Bytes EncodeProgram(const Program& program);
absl::StatusOr<Program> DecodeProgram(std::span<const uint8_t> bytes);

// Checks indices and consistency, as DecodeProgram does too. DATA_LOSS says what is wrong and
// where.
absl::Status ValidateProgram(const Program& program);

// Returns a readable listing for tools and logs.
std::string PrintProgram(const Program& program);

}  // namespace hpu
