#include "graph_compiler/codegen/size_symbols.h"

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/Support/MathExtras.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <map>

namespace hpu::graph_compiler {
namespace {

constexpr std::string_view kPrefix = "size";
// An immediate operand of x86 has 32 bits and is sign-extended.
constexpr uint64_t kEnd = uint64_t{1} << 31;
// Smaller numbers (one, and the pair of two) are steps rather than sizes.
constexpr uint64_t kSmallest = 3;
// Smaller factors are one or two additions.
constexpr uint64_t kSmallestFactor = 17;
// Smaller ones are the lanes of unrolled steps, which become displacements of addresses.
constexpr uint64_t kSmallestOffset = 257;

std::string NameOf(size_t number) { return std::string(kPrefix) + std::to_string(number); }

// Returns the bits of a factor that is 1 / n for a size n, as the mean of n numbers needs it.
std::optional<uint32_t> BitsOfReciprocal(const llvm::Instruction& instruction, unsigned operand) {
  if (instruction.getOpcode() != llvm::Instruction::FMul) return std::nullopt;
  const auto* value = llvm::dyn_cast<llvm::ConstantFP>(instruction.getOperand(operand));
  if (value == nullptr || !value->getType()->isFloatTy()) return std::nullopt;
  const float factor = value->getValueAPF().convertToFloat();
  if (!(factor > 0 && factor <= 1.0f / kSmallest)) return std::nullopt;
  const double size = std::round(1 / static_cast<double>(factor));
  if (static_cast<float>(1 / size) != factor) return std::nullopt;
  return std::bit_cast<uint32_t>(factor);
}

// Returns whether the code is as good with a register or a relocated immediate for the operand as
// with the number itself. `is_inner`: the instruction is in a loop inside of that over tasks.
bool MayTake(const llvm::Instruction& instruction, unsigned operand, uint64_t number,
             bool is_inner) {
  switch (instruction.getOpcode()) {
    case llvm::Instruction::ICmp:
    case llvm::Instruction::PHI:
    case llvm::Instruction::Select:
    case llvm::Instruction::Sub:
      return true;
    case llvm::Instruction::Add:
      return number >= kSmallestOffset;
    case llvm::Instruction::Mul:
      if (llvm::isPowerOf2_64(number)) return false;  // a shift
      return !is_inner || number >= kSmallestFactor;
    case llvm::Instruction::UDiv:
    case llvm::Instruction::URem:
    case llvm::Instruction::SDiv:
    case llvm::Instruction::SRem:
      // By a number it is a shift or a multiplication.
      return operand == 1 && !is_inner && !llvm::isPowerOf2_64(number);
    case llvm::Instruction::Call: {
      const auto* call = llvm::dyn_cast<llvm::MinMaxIntrinsic>(&instruction);
      return call != nullptr && operand < call->arg_size();
    }
    default:
      return false;
  }
}

class Taker {
 public:
  explicit Taker(llvm::Module& module) : module_(module) {}

  std::vector<uint32_t> Run() {
    for (llvm::Function& function : module_) {
      if (function.isDeclaration()) continue;
      const llvm::DominatorTree dominators(function);
      const llvm::LoopInfo loops(dominators);
      for (llvm::BasicBlock& block : function) {
        const bool is_inner = loops.getLoopDepth(&block) > 1;
        for (llvm::Instruction& instruction : block) Take(instruction, is_inner);
      }
    }
    return std::move(values_);
  }

 private:
  void Take(llvm::Instruction& instruction, bool is_inner) {
    for (unsigned i = 0; i < instruction.getNumOperands(); ++i) {
      if (const auto bits = BitsOfReciprocal(instruction, i)) {
        llvm::LLVMContext& context = module_.getContext();
        llvm::Constant* number =
            llvm::ConstantExpr::getTrunc(SymbolOf(*bits), llvm::Type::getInt32Ty(context));
        instruction.setOperand(
            i, llvm::ConstantExpr::getBitCast(number, llvm::Type::getFloatTy(context)));
        continue;
      }
      const auto* value = llvm::dyn_cast<llvm::ConstantInt>(instruction.getOperand(i));
      if (value == nullptr || value->getBitWidth() != 64) continue;
      const uint64_t number = value->getZExtValue();
      if (number < kSmallest || number >= kEnd) continue;
      if (!MayTake(instruction, i, number, is_inner)) continue;
      instruction.setOperand(i, SymbolOf(static_cast<uint32_t>(number)));
    }
  }

  llvm::Constant* SymbolOf(uint32_t number) {
    const auto [place, is_new] = symbols_.emplace(number, nullptr);
    if (!is_new) return place->second;
    llvm::LLVMContext& context = module_.getContext();
    llvm::Type* i64 = llvm::Type::getInt64Ty(context);
    auto* symbol = new llvm::GlobalVariable(
        module_, llvm::Type::getInt8Ty(context), /*isConstant=*/false,
        llvm::GlobalValue::ExternalLinkage, /*Initializer=*/nullptr, NameOf(values_.size()));
    symbol->setVisibility(llvm::GlobalValue::HiddenVisibility);
    const auto bound = [&](uint64_t n) {
      return llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(i64, n));
    };
    symbol->setMetadata(llvm::LLVMContext::MD_absolute_symbol,
                        llvm::MDNode::get(context, {bound(kSmallest), bound(kEnd)}));
    values_.push_back(number);
    return place->second = llvm::ConstantExpr::getPtrToInt(symbol, i64);
  }

  llvm::Module& module_;
  std::map<uint32_t, llvm::Constant*> symbols_;  // by value
  std::vector<uint32_t> values_;                 // by number
};

}  // namespace

std::vector<uint32_t> TakeSizes(llvm::Module& module) { return Taker(module).Run(); }

void PutSizesBack(llvm::Module& module, std::span<const uint32_t> values) {
  llvm::LLVMContext& context = module.getContext();
  for (size_t i = 0; i < values.size(); ++i) {
    llvm::GlobalVariable* symbol = module.getNamedGlobal(NameOf(i));
    if (symbol == nullptr) continue;  // no instruction needs it
    llvm::Constant* number = llvm::ConstantInt::get(llvm::Type::getInt64Ty(context), values[i]);
    symbol->replaceAllUsesWith(llvm::ConstantExpr::getIntToPtr(number, symbol->getType()));
    symbol->eraseFromParent();
  }
}

std::optional<size_t> SizeNumberOf(std::string_view symbol) {
  if (!symbol.starts_with(kPrefix)) return std::nullopt;
  symbol.remove_prefix(kPrefix.size());
  size_t number = 0;
  const auto [end, error] = std::from_chars(symbol.data(), symbol.data() + symbol.size(), number);
  if (error != std::errc() || end != symbol.data() + symbol.size()) return std::nullopt;
  return number;
}

}  // namespace hpu::graph_compiler
