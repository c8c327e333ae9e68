#include "tests/graph_compiler/kernel_runner.h"

namespace hpu::graph_compiler {
namespace {

Body TanhBody() {
  Body body;
  const uint32_t x = AddLoad(body, 0, MemoryType::kF32);
  AddStore(body, AddOp(body, Opcode::kTanh, ScalarType::kF32, {x}), 1, MemoryType::kF32);
  return body;
}

TEST(KernelModuleTest, EqualInputGivesEqualBytesAtEveryLevel) {
  for (const IsaLevel isa :
       {IsaLevel::kV2, IsaLevel::kV3, IsaLevel::kV4, IsaLevel::kV4Bf16, IsaLevel::kV4Amx}) {
    const BodyRunner first(isa, TanhBody(), 2);
    const BodyRunner second(isa, TanhBody(), 2);
    EXPECT_FALSE(first.code().empty());
    EXPECT_EQ(first.code(), second.code());
  }
}

TEST(KernelModuleTest, TasksRunInAnySplit) {
  KernelModule module(TargetInfoFor(IsaLevel::kV2));
  module.AddKernel("square", [](llvm::IRBuilder<>& b, const KernelFrame& frame, llvm::Value* task) {
    llvm::Value* slot = b.CreateGEP(b.getInt64Ty(), frame.Operand(b, 0), task);
    b.CreateStore(b.CreateMul(task, task), slot);
  });
  module.AddKernel("twice", [](llvm::IRBuilder<>& b, const KernelFrame& frame, llvm::Value* task) {
    llvm::Value* slot = b.CreateGEP(b.getInt64Ty(), frame.Operand(b, 0), task);
    b.CreateStore(b.CreateAdd(task, task), slot);
  });
  const auto image = module.Finish(SizesAs::kSymbols);
  ASSERT_TRUE(image.ok()) << image.status();
  ASSERT_EQ(image->entry_offsets.size(), 2u);
  const MappedImage mapped(image->code);
  std::vector<int64_t> out(6, -1);
  mapped.Run(image->entry_offsets[0], {out.data()}, 0, 2);
  mapped.Run(image->entry_offsets[1], {out.data()}, 2, 5);
  mapped.Run(image->entry_offsets[0], {out.data()}, 5, 5);
  EXPECT_EQ(out, (std::vector<int64_t>{0, 1, 4, 6, 8, -1}));
}

absl::StatusOr<KernelModule::Image> ManyKernels(int64_t count) {
  KernelModule module(TargetInfoFor(IsaLevel::kV3));
  auto* type = llvm::FunctionType::get(llvm::Type::getInt64Ty(module.context()),
                                       {llvm::Type::getInt64Ty(module.context())}, false);
  llvm::Function* square = module.AddHelper("square", type);
  llvm::IRBuilder<> body(llvm::BasicBlock::Create(module.context(), "entry", square));
  body.CreateRet(body.CreateMul(square->getArg(0), square->getArg(0)));
  for (int64_t k = 0; k < count; ++k) {
    module.AddKernel("k", [&](llvm::IRBuilder<>& b, const KernelFrame& frame, llvm::Value* task) {
      llvm::Value* slot = b.CreateGEP(b.getInt64Ty(), frame.Operand(b, 0), task);
      llvm::Value* value = b.getInt64(100 + k);
      if (k % 2 == 1) value = b.CreateAdd(value, b.CreateCall(square, {task}));
      b.CreateStore(value, slot);
    });
  }
  return module.Finish(SizesAs::kSymbols);
}

TEST(KernelModuleTest, EveryKernelOfManyIsFoundAtItsOffset) {
  constexpr int64_t kKernels = 14;
  const auto image = ManyKernels(kKernels);
  ASSERT_TRUE(image.ok()) << image.status();
  ASSERT_EQ(image->entry_offsets.size(), static_cast<size_t>(kKernels));
  const MappedImage mapped(image->code);
  for (int64_t k = 0; k < kKernels; ++k) {
    std::vector<int64_t> out(4, -1);
    mapped.Run(image->entry_offsets[k], {out.data()}, 3, 4);
    EXPECT_EQ(out[3], 100 + k + (k % 2 == 1 ? 9 : 0)) << "kernel " << k;
  }
}

TEST(KernelModuleTest, ManyKernelsGiveEqualBytes) {
  const auto first = ManyKernels(14);
  const auto second = ManyKernels(14);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->code, second->code);
  EXPECT_EQ(first->entry_offsets, second->entry_offsets);
}

TEST(KernelModuleTest, MemoryIntrinsicsNeedNoExternalSymbol) {
  KernelModule module(TargetInfoFor(IsaLevel::kV3));
  module.AddKernel("copy", [](llvm::IRBuilder<>& b, const KernelFrame& frame, llvm::Value*) {
    llvm::Value* size = b.CreateLoad(b.getInt64Ty(), frame.Operand(b, 2));
    b.CreateMemCpy(frame.Operand(b, 0), llvm::Align(1), frame.Operand(b, 1), llvm::Align(1), size);
    llvm::Value* shifted = b.CreateConstGEP1_64(b.getInt8Ty(), frame.Operand(b, 0), 1);
    b.CreateMemMove(shifted, llvm::Align(1), frame.Operand(b, 0), llvm::Align(1), size);
    b.CreateMemSet(frame.Operand(b, 1), b.getInt8(7), size, llvm::Align(1));
  });
  const auto image = module.Finish(SizesAs::kSymbols);
  ASSERT_TRUE(image.ok()) << image.status();
  const MappedImage mapped(image->code);
  std::vector<uint8_t> to(8, 0);
  std::vector<uint8_t> from = {1, 2, 3, 4, 5};
  int64_t size = 5;
  mapped.Run(image->entry_offsets[0], {to.data(), from.data(), &size}, 0, 1);
  EXPECT_EQ(to, (std::vector<uint8_t>{1, 1, 2, 3, 4, 5, 0, 0}));
  EXPECT_EQ(from, (std::vector<uint8_t>{7, 7, 7, 7, 7}));
}

TEST(KernelModuleTest, AnExternalSymbolIsAnError) {
  KernelModule module(TargetInfoFor(IsaLevel::kV3));
  module.AddKernel("call", [&](llvm::IRBuilder<>& b, const KernelFrame&, llvm::Value*) {
    b.CreateCall(module.llvm_module().getOrInsertFunction(
        "elsewhere", llvm::FunctionType::get(b.getVoidTy(), false)));
  });
  const auto image = module.Finish(SizesAs::kSymbols);
  ASSERT_FALSE(image.ok());
  EXPECT_EQ(image.status().message(), "generated code needs the external symbol 'elsewhere'");
}

}  // namespace
}  // namespace hpu::graph_compiler
