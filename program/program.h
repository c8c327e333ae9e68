// Program: the answer to one captured graph. Launches of recipes and eager ops in order, how
// inputs and outputs bind, what is mutated or aliased. Written by the compile server, verified and
// carried by the client, executed by backend/. It is a container of our own and not a protobuf
// message because the executor lives beside libtorch, where no protobuf may be (ARCHITECTURE.md).
//
// Sizes, strides and offsets are in elements and in PyTorch dimension order (outermost first).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/hash.h"
#include "base/status.h"

namespace hpu {

struct TensorSpec {
  DType dtype = DType::kInvalid;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t storage_offset = 0;  // relative to the start of what the tensor lies in

  bool operator==(const TensorSpec&) const = default;
};

// What graph input i is. Scalars (int, float, bool) were specialised into the graph and are
// ignored.
struct ProgramInput {
  enum class Kind : uint8_t { kTensor = 0, kScalar = 1 };
  Kind kind = Kind::kTensor;
  // kTensor: dtype, sizes and strides are checked at every call; storage_offset is ignored (the
  // address of the first element is taken per call).
  TensorSpec spec;
  bool mutated = false;  // some step writes it; its version counter is bumped
  bool on_cpu = false;   // a CPU tensor (0-d wrapped numbers): copied to the device per call
};

// Where the elements of a program tensor lie.
enum class Placement : uint8_t {
  kInput = 0,     // index = input; offset counts from the input's first element
  kBuffer = 1,    // index = buffer allocated by the executor for this call
  kConstant = 2,  // index = constant carried by the program, copied to the device once
  kEager = 3,     // produced by an EagerStep; index unused; strides must match what comes out
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

// A persistent tensor of the recipe and the program tensor whose address it gets.
struct Binding {
  std::string tensor_name;
  uint32_t tensor = 0;  // index into Program::tensors
};

struct LaunchStep {
  uint32_t recipe = 0;  // index into Program::recipes
  std::vector<Binding> bindings;
};

// Arguments of an eager ATen call; mirrors proto/graph.proto's Argument.
struct Argument;
struct NoneArgument {
  bool operator==(const NoneArgument&) const = default;
};
struct TensorArgument {
  uint32_t tensor = 0;
};
struct DTypeArgument {
  DType dtype;
};
struct EnumArgument {  // torch's MemoryFormat or Layout as text: "contiguous_format", "strided"
  std::string name;
};
struct DeviceArgument {
  std::string name;  // "hpu" or "cpu"
};
using ArgumentList = std::vector<Argument>;
struct Argument {
  std::variant<NoneArgument, TensorArgument, int64_t, double, bool, std::string, DTypeArgument,
               EnumArgument, DeviceArgument, ArgumentList>
      value;
};

// One ATen op run through PyTorch's dispatcher because no recipe can hold it.
struct EagerStep {
  std::string op;        // "aten::lgamma"
  std::string overload;  // "" or "out", "Tensor" ...
  std::vector<Argument> args;
  std::vector<std::pair<std::string, Argument>> kwargs;
  std::vector<uint32_t> outputs;  // program tensors, placement kEager, in the op's order
  std::string reason;             // why it is eager; shown in the log
};

using Step = std::variant<LaunchStep, EagerStep>;

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
  TensorSpec view;
  int64_t int_value = 0;  // kInt, kBool
  double float_value = 0;
};

struct RecipeRef {
  Digest digest{};  // SHA-256 of the serialised recipe
  uint64_t size_bytes = 0;
  std::string name;
};

struct Program {
  std::string name;  // graph name for logs
  std::vector<ProgramInput> inputs;
  std::vector<uint64_t> buffer_bytes;  // allocated per call, 128-byte aligned
  std::vector<ProgramConstant> constants;
  std::vector<ProgramTensor> tensors;
  std::vector<RecipeRef> recipes;
  std::vector<Step> steps;
  std::vector<ProgramOutput> outputs;
  // For reports: nodes of the captured graph, and how many of them run eagerly.
  uint32_t node_count = 0;
  uint32_t eager_node_count = 0;
};

// By tensor: a step or an output reads it. What an eager op makes beside that is dropped; its sizes
// may even differ from the captured ones (a meta function need not tell them of such results).
std::vector<bool> TensorsInUse(const Program& program);

// Container: magic "HPUPROG\0", u32 version, body, SHA-256 of all before it. Little endian.
// Decode checks magic, version, digest and every index (a decoded program is safe to execute as far
// as indices go); foreign or damaged bytes give DATA_LOSS, another version UNIMPLEMENTED.
inline constexpr uint32_t kProgramVersion = 1;
Bytes EncodeProgram(const Program& program);
absl::StatusOr<Program> DecodeProgram(std::span<const uint8_t> bytes);

// Index and consistency check, also done by DecodeProgram.
absl::Status ValidateProgram(const Program& program);

// Readable listing for tools and logs.
std::string PrintProgram(const Program& program);

}  // namespace hpu
