// One LLVM module per recipe: kernel functions go in, a relocated position-independent image comes
// out. Code for many kernels is generated in parts by several threads. The only users of LLVM are
// the files of codegen/ and contraction/.
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

// What generated code may use at an ISA level. Register blocking and vector widths come from here,
// never from the CPU that compiles.
struct TargetInfo {
  IsaLevel isa = IsaLevel::kV3;
  int f32_lanes = 8;          // of the preferred vector: 4 (v2), 8 (v3), 16 (v4)
  int vector_registers = 16;  // 32 at v4
  bool fma = true;
  bool avx512_bf16 = false;  // from kV4Bf16 on, and AVX512_VNNI
  // Code beside products of pairs, which take denormals for 0: one instruction narrows to bf16.
  bool bf16_denormals_are_zero = false;
  bool amx_bf16 = false;  // kV4Amx: AMX-TILE, AMX-BF16 and AMX-INT8
  std::string cpu;        // LLVM "x86-64-v3"
  std::string features;   // LLVM feature string, "+prefer-256-bit" and the like
};
TargetInfo TargetInfoFor(IsaLevel isa);

// Arguments of a kernel function (recipe.h, KernelLaunch) as LLVM values.
struct KernelFrame {
  llvm::Function* function = nullptr;
  llvm::Value* operands = nullptr;    // ptr to array of ptr
  llvm::Value* task_begin = nullptr;  // i64
  llvm::Value* task_end = nullptr;    // i64
  llvm::Value* scratch = nullptr;     // ptr
  // Address of operand `index` (loaded once in the entry block, noalias across written operands is
  // NOT implied: outputs may alias inputs element for element).
  llvm::Value* Operand(llvm::IRBuilder<>& builder, uint32_t index) const;
  // Where an access's elements begin: a buffer's operand, or its area in the scratch memory.
  llvm::Value* BaseOf(llvm::IRBuilder<>& builder, const graph_compiler::Operand& operand) const;
  // A stack slot in the entry block, `bytes` long and 64-byte aligned.
  llvm::AllocaInst* StackSlot(uint64_t bytes) const;

  std::vector<llvm::Value*> scratch_areas;          // by number; set by whoever divides `scratch`
  mutable std::vector<llvm::Value*> operand_cache;  // by index; filled by Operand
};

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
  // terminator; the loop over tasks is added around it.
  using EmitTask = std::function<void(llvm::IRBuilder<>&, const KernelFrame&, llvm::Value* task)>;
  void AddKernel(const std::string& name, const EmitTask& emit);

  // Adds an internal function of the module that kernels may call, with the target attributes set.
  llvm::Function* AddHelper(const std::string& name, llvm::FunctionType* type);

  // Optimises, generates an object for the target and lays it out as one image.
  // entry_offsets[i] belongs to the i-th added kernel. Memory intrinsics are served by functions
  // inside the image; any other external symbol is an INTERNAL error. Call once.
  struct Image {
    Bytes code;
    std::vector<uint32_t> entry_offsets;
  };
  absl::StatusOr<Image> Finish();

  // LLVM text of the module as it stands (dumps).
  std::string ToText() const;

 private:
  TargetInfo target_;
  std::unique_ptr<llvm::LLVMContext> context_;
  std::unique_ptr<llvm::Module> module_;
  std::vector<std::string> kernels_;
};

}  // namespace hpu::graph_compiler
