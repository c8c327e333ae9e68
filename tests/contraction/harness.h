// Runs the result of ContractionEmitter in this process: buffers stand for persistent tensors, a
// vector stands for the workspace, and packing kernels run first.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "graph_compiler/codegen/run_image.h"
#include "graph_compiler/contraction/contraction.h"

namespace hpu::graph_compiler {

// Returns the ISA levels that this CPU runs.
std::vector<IsaLevel> RunnableLevels();
// Returns those levels, and v4-amx with its instructions interpreted where the CPU lacks nothing
// else.
std::vector<IsaLevel> TestedLevels();
std::string LevelName(IsaLevel isa);  // "v4-bf16"

float FromBF16(uint16_t bits);
uint16_t ToBF16(float value);  // nearest even
float FromF16(uint16_t bits);
uint16_t ToF16(float value);  // exact for small integers over powers of two; otherwise it truncates

// A tensor in memory with guard bytes on both sides: reads outside give NaN, and CheckGuards finds
// writes outside.
class TestBuffer {
 public:
  TestBuffer(MemoryType type, int64_t elements);
  void* data() { return bytes_.data() + kGuard; }
  uint64_t size_bytes() const { return bytes_.size() - 2 * kGuard; }
  int64_t elements() const { return elements_; }
  MemoryType type() const { return type_; }
  float Get(int64_t i) const;
  void Set(int64_t i, float value);
  void FillRandom(uint32_t seed, float low = -1, float high = 1);
  bool GuardsIntact() const;

 private:
  static constexpr size_t kGuard = 256;
  MemoryType type_;
  int64_t elements_;
  std::vector<uint8_t> bytes_;
};

using EmitFn = std::function<absl::StatusOr<EmittedKernels>(ContractionEmitter&)>;

// A contraction that is compiled once and runs with any split of the tasks. Operand kPersistent i
// is buffers[i].
class CompiledContraction {
 public:
  CompiledContraction(IsaLevel isa, const EmitFn& emit);
  // Runs the packing kernels, then every launch, with its tasks in `splits` equal ranges (in
  // reverse order if `reverse`), each with fresh scratch.
  void Run(const std::vector<TestBuffer*>& buffers, int splits = 1, bool reverse = false);
  // Pack and RunPacked are the two halves of Run.
  void Pack(const std::vector<TestBuffer*>& buffers);
  // Runs the packing kernel of operand `index` from any source to any destination.
  void PackOne(size_t index, void* source, void* destination);
  void RunPacked(const std::vector<TestBuffer*>& buffers, int splits, bool reverse);
  // Runs share `part` of `parts` of every launch. Threads that run different shares at once must
  // not depend on each other's results: no barriers separate the launches.
  void RunShare(const std::vector<TestBuffer*>& buffers, int part, int parts);

  const EmittedKernels& kernels() const { return kernels_; }
  // Returns the CPU time of emission and code generation.
  double compile_ms() const { return compile_ms_; }
  size_t code_bytes() const { return code_bytes_; }

 private:
  void* Resolve(const OperandRef& ref, const std::vector<TestBuffer*>& buffers);
  void RunLaunch(const KernelLaunch& launch, const std::vector<void*>& operands, int splits,
                 bool reverse);

  EmittedKernels kernels_;
  std::vector<uint32_t> entries_;
  std::unique_ptr<MappedImage> image_;
  std::vector<uint8_t> workspace_;
  std::vector<std::vector<uint8_t>> packed_;
  double compile_ms_ = 0;
  size_t code_bytes_ = 0;
};

inline OperandRef Persistent(uint32_t index) { return {OperandRef::Kind::kPersistent, index, 0}; }

// Returns an f32 op; the caller sets the access of loads.
BodyOp MakeOp(Opcode opcode, std::vector<uint32_t> args = {}, double imm_f32 = 0);

// Sets operands 0 and 1 of a product: A [m, k] and a stable weight [n, k].
void SetDense(GemmSpec& spec, int64_t k);

// Returns the body store(accumulator) with the given strides to operand 0.
Body StoreBody(MemoryType type, const std::vector<int64_t>& strides, int64_t offset = 0);

}  // namespace hpu::graph_compiler
