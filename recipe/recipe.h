// A compiled graph of the emulated device: position-independent machine code, the launch table and
// the schedule of kernel launches. graph_compiler/ writes it, and the runtime, which maps no LLVM,
// reads it. Immutable after creation.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "synapse/include/synapse_api_types.h"

namespace hpu {

// The instruction-set levels that code is generated for. They are ordered: a higher level runs the
// code of all lower ones.
enum class IsaLevel : uint8_t { kV2 = 2, kV3 = 3, kV4 = 4, kV4Bf16 = 5, kV4Amx = 6 };

enum class Engine : uint8_t { kMme = 0, kTpc = 1, kDma = 2 };

// The type that the products of a kernel multiply; it decides which peak the kernel is measured
// against.
enum class Factors : uint8_t { kF32 = 0, kBf16 = 1 };
constexpr const char* FactorName(Factors factors) {
  return factors == Factors::kBf16 ? "bf16" : "f32";
}

// The place where a kernel finds a buffer.
struct OperandRef {
  enum class Kind : uint8_t {
    kPersistent = 0,  // index = entry of Recipe::tensors; the launch gives the address
    kWorkspace = 1,   // byte offset into the launch's workspace
    kConstant = 2,    // byte offset into Recipe::constants
    kPacked = 3,      // index = entry of Recipe::packed
    kNull = 4,        // absent
    kKept = 5,        // byte offset into the values that the prologue stored
  };
  Kind kind = Kind::kNull;
  uint32_t index = 0;
  uint64_t offset = 0;  // bytes, added to the base
};

constexpr const char* KindName(OperandRef::Kind kind) {
  switch (kind) {
    case OperandRef::Kind::kPersistent:
      return "tensor";
    case OperandRef::Kind::kWorkspace:
      return "workspace";
    case OperandRef::Kind::kConstant:
      return "constant";
    case OperandRef::Kind::kPacked:
      return "packed";
    case OperandRef::Kind::kNull:
      return "null";
    case OperandRef::Kind::kKept:
      return "kept";
  }
  return "";
}

// One kernel: void k(void* const* operands, int64_t task_begin, int64_t task_end, void* scratch).
// Tasks are independent. The runtime splits [0, tasks) over the compute threads and gives every
// thread its own 64-byte aligned scratch of scratch_bytes. Results must not depend on the split.
struct KernelLaunch {
  static constexpr uint32_t kOwnCode = ~uint32_t{0};

  uint32_t entry = 0;  // byte offset of the function in Recipe::code
  // The index of an entry of Recipe::custom_kernels, which then runs in place of code of the
  // recipe: `entry` is 0, and the entry's operands are inputs and then outputs.
  uint32_t custom = kOwnCode;
  std::vector<OperandRef> operands;
  uint64_t tasks = 1;
  uint64_t grain = 1;  // the least number of tasks that go to one thread together
  uint64_t scratch_bytes = 0;
  Engine engine = Engine::kTpc;
  std::string name;    // the names of the nodes that it covers, for profiles
  uint64_t flops = 0;  // multiply-adds count 2
  uint64_t bytes = 0;  // read and written
  Factors factors = Factors::kF32;
};

// An operand that is rearranged for the matrix engine once. The device keeps it as long as its
// source bytes do not change (every write through the API to overlapping memory drops it). `kernel`
// packs: the runtime calls it with operands = {source, destination}; its own operand list is not
// read. Packing happens before the recipe's first kernel, so no kernel of the recipe that runs
// before the last use may write the source.
struct PackedOperand {
  static constexpr uint32_t kNoEntry = ~uint32_t{0};

  OperandRef source;          // kPersistent or kConstant
  uint64_t source_bytes = 0;  // it depends on the range [source, source + source_bytes)
  uint64_t packed_bytes = 0;
  KernelLaunch kernel;
  // A function that writes every byte of the source range from the copy, with operands = {copy,
  // source} and as many tasks as `kernel`. kNoEntry: the copy does not hold all of it.
  uint32_t restore_entry = kNoEntry;
  // Recipes share equal formats of equal sources.
  std::string format;  // "b-panels f32 k=768 n=3072 nr=16 t=1"
};

struct RecipeTensor {
  std::string name;
  synTensorType type = DATA_TENSOR;
  synDataType dtype = syn_type_na;
  std::vector<uint64_t> sizes;  // FCD-first
  std::vector<uint8_t> permutation;
  uint32_t section = 0;
  uint64_t section_offset = 0;
  bool is_input = false;    // read before it is written; otherwise it is an output
  bool is_written = false;  // some kernel writes it
  bool external = false;
};

// A tensor of a custom kernel.
struct CustomOperand {
  synDataType dtype = syn_type_na;
  std::vector<uint64_t> sizes;   // FCD-first
  std::vector<int64_t> strides;  // in elements
};

// A call of a kernel that the caller's own library has (hpu_custom_kernel.h). The process that
// launches the recipe finds it by guid and version.
struct CustomKernel {
  std::string guid;
  uint32_t version = 0;
  Bytes params;
  std::vector<CustomOperand> inputs;
  std::vector<CustomOperand> outputs;
};

struct ConstSection {
  uint32_t section = 0;
  Bytes data;
};

struct Recipe {
  std::string name;
  synDeviceType device_type = synDeviceGaudi2;
  IsaLevel isa = IsaLevel::kV3;
  // Persistent tensors, which are the launch table in this order.
  std::vector<RecipeTensor> tensors;
  uint64_t workspace_bytes = 0;  // multiple of 128
  Bytes constants;               // 64-byte aligned offsets inside
  Bytes code;                    // position independent, relocated; entry offsets in kernels
  std::vector<PackedOperand> packed;
  std::vector<KernelLaunch> kernels;  // run in order; each sees the results of the earlier ones
  // The number of first kernels that compute only from constants and from persistent tensors that
  // no kernel writes. The results that the other kernels need lie in `kept_bytes` of the device's
  // own memory, so that a launch leaves these kernels out while the bytes of those tensors have not
  // changed since they ran.
  uint32_t prologue = 0;
  uint64_t kept_bytes = 0;  // multiple of 128
  std::vector<ConstSection> const_sections;
  std::vector<CustomKernel> custom_kernels;
};

// base/container.h frames it, with the magic "HPURECIP". Decode checks every index and range.
inline constexpr uint32_t kRecipeVersion = 5;
Bytes EncodeRecipe(const Recipe& recipe);
// DATA_LOSS: foreign or damaged bytes. UNIMPLEMENTED: another version.
absl::StatusOr<Recipe> DecodeRecipe(std::span<const uint8_t> bytes);

// Checks every index, offset and range that the runtime follows; DecodeRecipe calls it.
absl::Status ValidateRecipe(const Recipe& recipe);

// Returns the bytes of one element on the device; 0 for types that tensors cannot have (including
// 4-bit ones).
uint64_t ElementSize(synDataType dtype);
// Does not overflow for tensors of a valid recipe.
uint64_t TensorBytes(const RecipeTensor& tensor);

}  // namespace hpu
