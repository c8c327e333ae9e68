// Program: the answer to one captured graph. Functions (a forward, later its backward) of launches
// of recipes and eager ops in order, how inputs and outputs bind, what is mutated or aliased, what
// crosses from function to function. Written by the compile server, verified and carried by the
// client, executed by backend/. It is a container of our own and not a protobuf message because the
// executor lives beside libtorch, where no protobuf may be (ARCHITECTURE.md). What a program is
// called is no part of it: equal programs of two graphs have equal bytes.
//
// Sizes, strides and offsets are in elements and in PyTorch dimension order (outermost first).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/status.h"
#include "graph/alias_form.h"
#include "graph/argument.h"
#include "graph/tensor_spec.h"
#include "program/steps.h"

namespace hpu {

// What a function's input is.
struct ProgramInput {
  enum class Kind : uint8_t {
    kTensor = 0,
    kScalar = 1,  // int, float, bool: specialised into the graph and ignored
    kNumber = 2,  // a number that may differ from call to call; the function reads it as a 0-d
                  // tensor in the device's memory
    kSeed = 3,    // state of the device's random number generator, as a kNumber: its seed
    kOffset = 4,  // and where this call's numbers start in the stream of the seed
  };
  Kind kind = Kind::kTensor;
  // kTensor: dtype, sizes and strides are checked at every call; storage_offset is ignored (the
  // address of the first element is taken per call). kScalar: empty. Else 0-d.
  TensorSpec spec;
  bool mutated = false;   // some step writes it; its version counter is bumped
  bool on_cpu = false;    // a CPU tensor (0-d wrapped numbers): copied to the device per call
  bool detached = false;  // autograd does not see the function read it
  uint64_t draws = 0;     // kOffset: by how much a call moves the generator's offset on
};

// Where the elements of a program tensor lie.
enum class Placement : uint8_t {
  kInput = 0,     // index = input; offset counts from the input's first element
  kBuffer = 1,    // index = buffer allocated by the executor for this call
  kConstant = 2,  // index = constant carried by the program, copied to the device once
  kEager = 3,     // made by a step; index unused; strides must match what comes out
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

// One call of a view operator; its first argument, the tensor that is viewed, is left out.
struct ViewCall {
  std::string op;
  std::string overload;
  std::vector<Argument> args;  // no tensors
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
    kOutputView = 7,  // view of the kTensor output `index`, which stands before this one
  };
  Kind kind = Kind::kNone;
  uint32_t index = 0;
  TensorSpec view;                    // kInputView, kOutputView
  AliasForm form = AliasForm::kView;  // kInputView: of the views and kDetached
  std::vector<ViewCall> calls;        // how autograd is to see the view; empty: as_strided
  int64_t int_value = 0;              // kInt, kBool
  double float_value = 0;
  bool returned = true;  // false: the caller does not get it; it is saved for another function
  bool requires_grad = false;  // differentiable; false: marked so that autograd knows
};

// What a function leaves behind in the caller's thread.
enum class GradMode : uint8_t { kUnchanged = 0, kOff = 1, kOn = 2 };

struct ProgramFunction {
  std::string name = "forward";  // its part: "forward", "backward"; unique in the program
  std::vector<ProgramInput> inputs;
  std::vector<uint64_t> buffer_bytes;  // allocated per call, 128-byte aligned
  std::vector<ProgramTensor> tensors;
  std::vector<Step> steps;
  std::vector<ProgramOutput> outputs;
  GradMode grad_mode = GradMode::kUnchanged;
  // For reports: nodes of the captured graph, and how many of them run eagerly.
  uint32_t node_count = 0;
  uint32_t eager_node_count = 0;
};

// An output or an input of one of the functions.
struct FunctionSlot {
  uint32_t function = 0;
  uint32_t index = 0;
  auto operator<=>(const FunctionSlot&) const = default;
};

// A value that one call computes and a later call of another function takes: a tensor saved for the
// backward, a number, the offset of random numbers that are to be drawn again.
struct SavedValue {
  FunctionSlot output;
  FunctionSlot input;    // of a later function; nothing else fills it
  bool donated = false;  // nobody else holds it: once its last reader ran its memory may be reused,
                         // unless the graph is retained
};

// Function `backward` computes gradients of function `forward`.
struct Derivative {
  struct Pair {
    uint32_t forward = 0;   // tangent: an output; gradient: an input
    uint32_t backward = 0;  // tangent: an input; gradient: an output
  };
  uint32_t forward = 0;
  uint32_t backward = 0;
  std::vector<Pair> tangents;   // gradients of outputs, which come in (zeros where undefined)
  std::vector<Pair> gradients;  // gradients of inputs, which come out; the others have none
};

struct RecipeRef {
  Digest digest{};  // SHA-256 of the serialised recipe
  uint64_t size_bytes = 0;
};

struct Program {
  std::vector<ProgramFunction> functions;  // the first is what a call runs; each takes saved values
                                           // and tangents of earlier ones only
  std::vector<SavedValue> saved;
  std::vector<Derivative> derivatives;
  std::vector<ProgramConstant> constants;
  std::vector<RecipeRef> recipes;
  bool deterministic = false;  // compiled in PyTorch's deterministic mode
};

// By tensor: a step needs it or it is an output. What a step makes beside that is dropped; its
// sizes may even differ from the captured ones (a meta function need not tell them of such
// results).
std::vector<bool> TensorsInUse(const ProgramFunction& function);

// Container (base/container.h) of kind "HPUPROG\0". Decode checks every index (a decoded program is
// safe to execute as far as indices go); foreign or damaged bytes give DATA_LOSS, another version
// UNIMPLEMENTED. Every program has one encoding: what decodes encodes to the same bytes.
inline constexpr uint32_t kProgramVersion = 3;
Bytes EncodeProgram(const Program& program);
absl::StatusOr<Program> DecodeProgram(std::span<const uint8_t> bytes);

// Index and consistency check, also done by DecodeProgram. DATA_LOSS names what and where.
absl::Status ValidateProgram(const Program& program);

// Readable listing for tools and logs.
std::string PrintProgram(const Program& program);

}  // namespace hpu
