#include "graph_compiler/codegen/module.h"

#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/Bitcode/BitcodeWriter.h>
#include <llvm/CodeGen/CommandFlags.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/IPO/GlobalDCE.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/ADCE.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/LoopStrengthReduce.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <set>

#include "base/hash.h"
#include "graph_compiler/codegen/memory_functions.h"
#include "graph_compiler/codegen/object_cache.h"
#include "graph_compiler/codegen/object_image.h"
#include "graph_compiler/codegen/size_symbols.h"

namespace hpu::graph_compiler {
namespace {

constexpr char kTriple[] = "x86_64-unknown-linux-gnu";

void InitialiseLlvmOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
    // If LLVM's malloc fails, the process must react as it does when `new` fails.
    llvm::install_bad_alloc_error_handler([](void*, const char*, bool) {
      if (const std::new_handler handler = std::get_new_handler(); handler != nullptr) handler();
      throw std::bad_alloc();
    });
    // Loop strength reduction would take most of the compile time (exponential search over the many
    // constant offsets of unrolled kernels) to arrive at the addresses that the emitters write to
    // begin with. LLVM's command line is the only switch for it.
    const auto& options = llvm::cl::getRegisteredOptions();
    if (const auto found = options.find("disable-lsr"); found != options.end()) {
      found->second->addOccurrence(1, "disable-lsr", "true");
    }
  });
}

std::unique_ptr<llvm::TargetMachine> MakeTargetMachine(const TargetInfo& target,
                                                       llvm::Reloc::Model relocations) {
  InitialiseLlvmOnce();
  std::string error;
  const llvm::Target* backend = llvm::TargetRegistry::lookupTarget(kTriple, error);
  if (backend == nullptr) return nullptr;
  llvm::TargetOptions options;
  // The emitters ask for contraction by llvm.fma and fmuladd; the backend never chooses it.
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  return std::unique_ptr<llvm::TargetMachine>(
      backend->createTargetMachine(kTriple, target.cpu, target.features, options, relocations,
                                   llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
}

// The emitters already produce vector loops, so a few clean-up passes suffice; the full -O3
// pipeline costs several times more and finds nothing to vectorise.
void Optimise(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::PassBuilder builder(&machine);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  // No library function is known, so that nothing turns into a call of libc.
  llvm::TargetLibraryInfoImpl library{llvm::Triple(module.getTargetTriple())};
  library.disableAllFunctions();
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);

  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()),
                                                       /*UseMemorySSA=*/true));
  passes.addPass(llvm::EarlyCSEPass());
  passes.addPass(llvm::ADCEPass());
  llvm::ModulePassManager pipeline;
  pipeline.addPass(llvm::GlobalDCEPass());  // helpers that no kernel calls
  pipeline.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(passes)));
  pipeline.run(module, modules);
}

void SetTargetAttributes(const TargetInfo& target, llvm::Function* function) {
  function->setDSOLocal(true);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  function->addFnAttr("target-cpu", target.cpu);
  if (!target.features.empty()) function->addFnAttr("target-features", target.features);
  const std::string width = std::to_string(target.f32_lanes * 32);
  function->addFnAttr("prefer-vector-width", width);
  function->addFnAttr("min-legal-vector-width", width);
  function->addFnAttr("no-builtins");
}

// Returns what tells the module from others. Attributes of its functions name the target.
Digest DigestOf(const llvm::Module& module) {
  llvm::SmallVector<char, 0> bitcode;
  llvm::raw_svector_ostream stream(bitcode);
  llvm::WriteBitcodeToFile(module, stream);
  return Sha256({reinterpret_cast<const uint8_t*>(bitcode.data()), bitcode.size()});
}

// In position-independent code a symbol is no displacement of an address, so that each size would
// need a register. Code with sizes is generated for one position therefore; the layout refuses what
// would be right there alone.
absl::StatusOr<ObjectCache::Object> Generate(llvm::Module& module, const TargetInfo& target,
                                             bool has_sizes) {
  const auto machine =
      MakeTargetMachine(target, has_sizes ? llvm::Reloc::Static : llvm::Reloc::PIC_);
  if (machine == nullptr) return Internal("LLVM has no X86 target");
  Optimise(module, *machine);
  for (llvm::Function* function : AddMemoryFunctions(module)) SetTargetAttributes(target, function);
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager emit;
  if (machine->addPassesToEmitFile(emit, stream, nullptr, llvm::CodeGenFileType::ObjectFile,
                                   /*DisableVerify=*/true)) {
    return Internal("LLVM cannot write objects for ", kTriple);
  }
  emit.run(module);
  return std::make_shared<const std::vector<char>>(object.begin(), object.end());
}

// Generates the module's object, unless this process has generated it before.
absl::StatusOr<KernelModule::Image> MakeImage(llvm::Module& module, const TargetInfo& target,
                                              const std::vector<std::string>& kernels,
                                              std::span<const uint32_t> sizes) {
  const Digest code = DigestOf(module);
  ObjectCache& cache = ObjectCache::OfProcess();
  ObjectCache::Object object = cache.Find(code);
  if (object == nullptr) {
    ASSIGN_OR_RETURN(object, Generate(module, target, !sizes.empty()));
    cache.Keep(code, object);
  }
  return LayOutObject(*object, kernels, sizes);
}

// Returns where x86-64 places things, which does not depend on the ISA level.
const std::string& Layout() {
  static const auto* layout = [] {
    const auto machine = MakeTargetMachine(TargetInfoFor(IsaLevel::kV2), llvm::Reloc::PIC_);
    return new std::string(
        machine == nullptr ? "" : machine->createDataLayout().getStringRepresentation());
  }();
  return *layout;
}

}  // namespace

TargetInfo TargetInfoFor(IsaLevel isa) {
  TargetInfo target;
  target.isa = isa;
  switch (isa) {
    case IsaLevel::kV2:
      target.f32_lanes = 4;
      target.fma = false;
      target.cpu = "x86-64-v2";
      break;
    case IsaLevel::kV3:
      target.cpu = "x86-64-v3";
      break;
    case IsaLevel::kV4:
    case IsaLevel::kV4Bf16:
    case IsaLevel::kV4Amx:
      target.f32_lanes = 16;
      target.vector_registers = 32;
      target.cpu = "x86-64-v4";
      target.features = "-prefer-256-bit";
      break;
  }
  if (isa >= IsaLevel::kV4Bf16) {
    target.avx512_bf16 = true;
    target.features += ",+avx512bf16,+avx512vnni";
  }
  if (isa >= IsaLevel::kV4Amx) {
    target.amx_bf16 = true;
    target.features += ",+amx-tile,+amx-bf16,+amx-int8";
  }
  return target;
}

llvm::Value* KernelFrame::Operand(llvm::IRBuilder<>& builder, uint32_t index) const {
  if (index < operand_cache.size() && operand_cache[index] != nullptr) return operand_cache[index];
  if (index >= operand_cache.size()) operand_cache.resize(index + 1);
  llvm::IRBuilder<> entry(function->getEntryBlock().getTerminator());
  llvm::Value* slot = entry.CreateConstInBoundsGEP1_64(builder.getPtrTy(), operands, index);
  llvm::LoadInst* address = entry.CreateAlignedLoad(builder.getPtrTy(), slot, llvm::Align(8),
                                                    "op" + std::to_string(index));
  operand_cache[index] = address;
  return address;
}

llvm::Value* KernelFrame::BaseOf(llvm::IRBuilder<>& builder,
                                 const graph_compiler::Operand& operand) const {
  return operand.IsBuffer() ? Operand(builder, operand.number) : scratch_areas[operand.number];
}

llvm::AllocaInst* KernelFrame::StackSlot(uint64_t bytes) const {
  llvm::BasicBlock& entry = function->getEntryBlock();
  llvm::IRBuilder<> builder(&entry, entry.begin());
  llvm::AllocaInst* slot =
      builder.CreateAlloca(llvm::ArrayType::get(builder.getInt8Ty(), bytes), nullptr, "slot");
  slot->setAlignment(llvm::Align(64));
  return slot;
}

KernelModule::KernelModule(const TargetInfo& target)
    : target_(target),
      context_(std::make_unique<llvm::LLVMContext>()),
      module_(std::make_unique<llvm::Module>("kernels", *context_)) {
  module_->setTargetTriple(kTriple);
  module_->setPICLevel(llvm::PICLevel::BigPIC);
  module_->setDataLayout(Layout());
}

KernelModule::~KernelModule() = default;

llvm::Function* KernelModule::AddHelper(const std::string& name, llvm::FunctionType* type) {
  auto* function =
      llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, name, module_.get());
  SetTargetAttributes(target_, function);
  return function;
}

void KernelModule::AddKernel(const std::string& name, const EmitTask& emit) {
  llvm::IRBuilder<> builder(*context_);
  llvm::Type* ptr = builder.getPtrTy();
  llvm::Type* i64 = builder.getInt64Ty();
  auto* type = llvm::FunctionType::get(builder.getVoidTy(), {ptr, i64, i64, ptr}, false);
  // Symbols carry the ordinal because names are for people and may repeat.
  const std::string symbol = "k" + std::to_string(kernels_.size()) + "." + name;
  auto* function =
      llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, symbol, module_.get());
  function->setVisibility(llvm::GlobalValue::HiddenVisibility);
  function->setAlignment(llvm::Align(64));
  SetTargetAttributes(target_, function);
  kernels_.push_back(symbol);

  KernelFrame frame;
  frame.function = function;
  frame.operands = function->getArg(0);
  frame.task_begin = function->getArg(1);
  frame.task_end = function->getArg(2);
  frame.scratch = function->getArg(3);
  for (const unsigned argument : {0u, 3u}) {
    function->addParamAttr(argument, llvm::Attribute::NoAlias);
    function->addParamAttr(argument, llvm::Attribute::NoCapture);
  }
  function->addParamAttr(0, llvm::Attribute::ReadOnly);
  function->addParamAttr(3, llvm::Attribute::getWithAlignment(*context_, llvm::Align(64)));

  auto* entry = llvm::BasicBlock::Create(*context_, "entry", function);
  auto* loop = llvm::BasicBlock::Create(*context_, "task", function);
  auto* done = llvm::BasicBlock::Create(*context_, "done", function);
  builder.SetInsertPoint(entry);
  builder.CreateCondBr(builder.CreateICmpSLT(frame.task_begin, frame.task_end), loop, done);
  builder.SetInsertPoint(loop);
  llvm::PHINode* task = builder.CreatePHI(i64, 2, "task");
  task->addIncoming(frame.task_begin, entry);
  emit(builder, frame, task);
  llvm::Value* next = builder.CreateNSWAdd(task, builder.getInt64(1), "next_task");
  task->addIncoming(next, builder.GetInsertBlock());
  builder.CreateCondBr(builder.CreateICmpSLT(next, frame.task_end), loop, done);
  builder.SetInsertPoint(done);
  builder.CreateRetVoid();
}

std::string KernelModule::ToText() const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module_->print(stream, nullptr);
  return text;
}

absl::StatusOr<KernelModule::Image> KernelModule::Finish(SizesAs sizes_as) {
  std::string problem;
  llvm::raw_string_ostream problem_stream(problem);
  if (llvm::verifyModule(*module_, &problem_stream)) {
    return Internal("generated IR is malformed: ", problem_stream.str());
  }
  // Names of nodes are for dumps.
  for (size_t k = 0; k < kernels_.size(); ++k) {
    std::string name = "k" + std::to_string(k);
    module_->getFunction(kernels_[k])->setName(name);
    kernels_[k] = std::move(name);
  }
  if (sizes_as == SizesAs::kNumbers) return MakeImage(*module_, target_, kernels_, {});
  const std::vector<uint32_t> sizes = TakeSizes(*module_);
  absl::StatusOr<Image> image = MakeImage(*module_, target_, kernels_, sizes);
  if (image.ok() || sizes.empty()) return image;
  // The backend has used a size in an instruction that has no relocation for it.
  PutSizesBack(*module_, sizes);
  return MakeImage(*module_, target_, kernels_, {});
}

}  // namespace hpu::graph_compiler
