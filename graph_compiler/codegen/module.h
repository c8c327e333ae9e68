// One LLVM module per recipe: kernel functions go in, a relocated position-independent image comes
// out. Several threads generate the code of many kernels in parts. Only the files of codegen/ and
// contraction/ use LLVM.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph_compiler/ir/loop_ir.h"
#include "recipe/recipe.h"

namespace hpu::graph_compiler {

// The features that generated code may use at an ISA level. Register blocking and vector widths
// come from here, never from the CPU that compiles.
struct TargetInfo {
  IsaLevel isa = IsaLevel::kV3;
  int f32_lanes = 8;          // of the preferred vector: 4 (v2), 8 (v3), 16 (v4)
  int vector_registers = 16;  // 32 at v4
  bool fma = true;
  bool avx512_bf16 = false;  // from kV4Bf16 on, and AVX512_VNNI
  // Set for code that runs beside products of pairs, which take denormals for 0. One instruction
  // narrows to bf16 there.
  bool bf16_denormals_are_zero = false;
  bool amx_bf16 = false;  // kV4Amx: AMX-TILE, AMX-BF16 and AMX-INT8
  std::string cpu;        // LLVM "x86-64-v3"
  std::string features;   // LLVM feature string, "+prefer-256-bit" and the like
};
TargetInfo TargetInfoFor(IsaLevel isa);

// The arguments of a kernel function (recipe.h, KernelLaunch) as LLVM values.
struct KernelFrame {
  llvm::Function* function = nullptr;
  llvm::Value* operands = nullptr;    // ptr to array of ptr
  llvm::Value* task_begin = nullptr;  // i64
  llvm::Value* task_end = nullptr;    // i64
  llvm::Value* scratch = nullptr;     // ptr
  // Returns the address of operand `index`, which is loaded once in the entry block. Written
  // operands are NOT noalias: outputs may alias inputs element for element.
  llvm::Value* Operand(llvm::IRBuilder<>& builder, uint32_t index) const;
  // Returns the address where the elements of an access begin: a buffer's operand, or its area in
  // the scratch memory.
  llvm::Value* BaseOf(llvm::IRBuilder<>& builder, const graph_compiler::Operand& operand) const;
  // Returns a stack slot in the entry block that is `bytes` long and 64-byte aligned.
  llvm::AllocaInst* StackSlot(uint64_t bytes) const;

  std::vector<llvm::Value*> scratch_areas;  // by number; set by the code that divides `scratch`
  mutable std::vector<llvm::Value*> operand_cache;  // by index; filled by Operand
};

// How code has the sizes in it: as numbers, or as symbols that get their values last, so that
// kernels that differ in sizes alone are generated once (size_symbols.h).
enum class SizesAs : uint8_t { kNumbers, kSymbols };

class KernelModule {
 public:
  explicit KernelModule(const TargetInfo& target);
  ~KernelModule();

  const TargetInfo& target() const { return target_; }
  llvm::Module& llvm_module() { return *module_; }
  llvm::LLVMContext& context() { return *context_; }
  int num_kernels() const { return static_cast<int>(kernels_.size()); }

  // Adds `void name(ptr operands, i64 begin, i64 end, ptr scratch)`. `emit` fills the body of ONE
  // task: it gets the frame and the task number and must leave the builder at a block without
  // terminator. The loop over tasks is added around it.
  using EmitTask = std::function<void(llvm::IRBuilder<>&, const KernelFrame&, llvm::Value* task)>;
  void AddKernel(const std::string& name, const EmitTask& emit);

  // Adds an internal function that kernels of the module may call. It has the target attributes.
  llvm::Function* AddHelper(const std::string& name, llvm::FunctionType* type);

  // Optimises the module, generates an object for the target and lays it out as one image. Equal
  // modules of a process are generated once (object_cache.h).
  // entry_offsets[i] belongs to the i-th added kernel. Functions inside the image serve memory
  // intrinsics; any other external symbol is an INTERNAL error. Call this once.
  struct Image {
    Bytes code;
    std::vector<uint32_t> entry_offsets;
  };
  absl::StatusOr<Image> Finish(SizesAs sizes_as);

  // Returns the LLVM text of the module in its present state (for dumps).
  std::string ToText() const;

 private:
  TargetInfo target_;
  std::unique_ptr<llvm::LLVMContext> context_;
  std::unique_ptr<llvm::Module> module_;
  std::vector<std::string> kernels_;
};

}  // namespace hpu::graph_compiler
