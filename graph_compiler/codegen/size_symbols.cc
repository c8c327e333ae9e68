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
constexpr uint64_t kSmallest = 2;
// Two is the number of a pair in bounds and sums, and a count of tasks in products and quotients.
constexpr uint64_t kSmallestBound = 3;
// Smaller factors are one or two additions.
constexpr uint64_t kSmallestFactor = 17;
// In innermost loops smaller ones are the lanes of unrolled steps, which become displacements of
// addresses.
constexpr uint64_t kSmallestOffset = 257;

// The loops around an instruction: that over tasks, loops with loops in them, or an innermost one.
enum class Depth : uint8_t { kTask, kOuter, kInnermost };

std::string NameOf(size_t number) { return std::string(kPrefix) + std::to_string(number); }

// Returns the bits of a factor that is 1 / n for a size n, as the mean of n numbers needs it.
std::optional<uint32_t> BitsOfReciprocal(const llvm::Instruction& instruction, unsigned operand) {
  if (instruction.getOpcode() != llvm::Instruction::FMul) return std::nullopt;
  const auto* value = llvm::dyn_cast<llvm::ConstantFP>(instruction.getOperand(operand));
  if (value == nullptr || !value->getType()->isFloatTy()) return std::nullopt;
  const float factor = value->getValueAPF().convertToFloat();
  if (!(factor > 0 && factor <= 1.0f / kSmallestBound)) return std::nullopt;
  const double size = std::round(1 / static_cast<double>(factor));
  if (static_cast<float>(1 / size) != factor) return std::nullopt;
  return std::bit_cast<uint32_t>(factor);
}

// Returns whether the code is as good with a register or a relocated immediate for the operand as
// with the number itself.
bool MayTake(const llvm::Instruction& instruction, unsigned operand, uint64_t number, Depth depth) {
  switch (instruction.getOpcode()) {
    case llvm::Instruction::ICmp:
    case llvm::Instruction::PHI:
    case llvm::Instruction::Select:
    case llvm::Instruction::Sub:
      return number >= kSmallestBound;
    case llvm::Instruction::Add:
      if (number < kSmallestBound) return false;
      return depth != Depth::kInnermost || number >= kSmallestOffset;
    case llvm::Instruction::GetElementPtr:
      return number >= kSmallestOffset;
    case llvm::Instruction::Mul:
      if (depth == Depth::kTask) return true;
      return number >= (llvm::isPowerOf2_64(number) ? kSmallestOffset : kSmallestFactor);
    case llvm::Instruction::UDiv:
    case llvm::Instruction::URem:
    case llvm::Instruction::SDiv:
    case llvm::Instruction::SRem:
      // By a number it is a shift or a multiplication.
      return operand == 1 && depth == Depth::kTask;
    case llvm::Instruction::Call: {
      const auto* call = llvm::dyn_cast<llvm::MinMaxIntrinsic>(&instruction);
      return call != nullptr && operand < call->arg_size() && number >= kSmallestBound;
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
        const llvm::Loop* loop = loops.getLoopFor(&block);
        const bool is_task = loop == nullptr || loop->isOutermost();
        const Depth depth = is_task               ? Depth::kTask
                            : loop->isInnermost() ? Depth::kInnermost
                                                  : Depth::kOuter;
        for (llvm::Instruction& instruction : llvm::make_early_inc_range(block)) {
          Take(*WithoutMinus(&instruction, depth), depth);
        }
      }
    }
    return std::move(values_);
  }

 private:
  // Returns x - n in place of x + (-n), which has no number to take.
  static llvm::Instruction* WithoutMinus(llvm::Instruction* add, Depth depth) {
    if (add->getOpcode() != llvm::Instruction::Add || depth == Depth::kInnermost) return add;
    const auto* value = llvm::dyn_cast<llvm::ConstantInt>(add->getOperand(1));
    if (value == nullptr || value->getBitWidth() != 64 || !value->isNegative()) return add;
    llvm::Constant* number = llvm::ConstantInt::get(add->getType(), -value->getValue());
    auto* sub = llvm::BinaryOperator::CreateSub(add->getOperand(0), number, "", add->getIterator());
    add->replaceAllUsesWith(sub);
    add->eraseFromParent();
    return sub;
  }

  void Take(llvm::Instruction& instruction, Depth depth) {
    for (unsigned i = 0; i < instruction.getNumOperands(); ++i) {
      if (const auto bits = BitsOfReciprocal(instruction, i)) {
        llvm::LLVMContext& context = module_.getContext();
        llvm::Constant* number = llvm::ConstantExpr::getTrunc(SymbolOf(*bits, &instruction),
                                                              llvm::Type::getInt32Ty(context));
        instruction.setOperand(
            i, llvm::ConstantExpr::getBitCast(number, llvm::Type::getFloatTy(context)));
        continue;
      }
      const auto* value = llvm::dyn_cast<llvm::ConstantInt>(instruction.getOperand(i));
      if (value == nullptr || value->getBitWidth() != 64) continue;
      const uint64_t number = value->getZExtValue();
      if (number < kSmallest || number >= kEnd) continue;
      if (!MayTake(instruction, i, number, depth)) continue;
      const llvm::Value* beside =
          i == 1 ? instruction.getOperand(0) : static_cast<llvm::Value*>(&instruction);
      instruction.setOperand(i, SymbolOf(static_cast<uint32_t>(number), beside));
    }
  }

  // Numbers that are equal in one shape are not in another, so that each has a symbol of its own
  // except a divisor of one dividend, whose quotient and rest are one instruction. `beside` is the
  // other operand, or the instruction.
  llvm::Constant* SymbolOf(uint32_t number, const llvm::Value* beside) {
    const auto [place, is_new] = symbols_.emplace(std::pair(number, beside), nullptr);
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
  std::map<std::pair<uint32_t, const llvm::Value*>, llvm::Constant*>
      symbols_;                   // by value and what is beside it
  std::vector<uint32_t> values_;  // by number
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
