#include "graph_compiler/codegen/sort_entries.h"

#include "graph_compiler/codegen/ir_loops.h"

namespace hpu::graph_compiler {
namespace {

constexpr int kDigitBits = 8;
constexpr int64_t kDigitValues = 1 << kDigitBits;
constexpr int64_t kWordBytes = 8;
// A radix sort clears and sums counters for each row. Short rows are merged in less time than that.
constexpr int64_t kLeastForRadix = 256;
// The counters have 32 bits.
constexpr int64_t kMostForRadix = (int64_t{1} << 32) - 1;

bool UsesRadix(int64_t count) { return count >= kLeastForRadix && count <= kMostForRadix; }

uint64_t AreaWords(int64_t count, int key_bits) {
  return static_cast<uint64_t>(key_bits == 32 ? count : 2 * count);
}

}  // namespace

SortEntries::SortEntries(llvm::IRBuilder<>& builder, const KernelFrame& frame, int64_t count,
                         int key_bits)
    : b_(builder), frame_(frame), count_(count), key_bits_(key_bits), i64_(builder.getInt64Ty()) {}

// The scratch memory holds two areas of entries, between which they move, and then the counters.
uint64_t SortEntries::ScratchBytes(int64_t count, int key_bits) {
  const uint64_t counters =
      UsesRadix(count) ? static_cast<uint64_t>(key_bits / kDigitBits * kDigitValues) : 0;
  return 2 * AreaWords(count, key_bits) * kWordBytes + counters * sizeof(uint32_t);
}

llvm::Value* SortEntries::Word(llvm::Value* area, llvm::Value* i) const {
  return b_.CreateGEP(i64_, area, i);
}

SortEntry SortEntries::Load(llvm::Value* area, llvm::Value* i) const {
  llvm::Value* word = b_.CreateLoad(i64_, Word(area, i));
  if (!packed()) return {word, b_.CreateLoad(i64_, Word(area, b_.CreateAdd(i, Int(count_))))};
  return {b_.CreateTrunc(b_.CreateLShr(word, 32), b_.getInt32Ty()),
          b_.CreateAnd(word, Int(0xffffffff))};
}

void SortEntries::Store(llvm::Value* area, llvm::Value* i, const SortEntry& entry) const {
  if (packed()) {
    llvm::Value* high = b_.CreateShl(b_.CreateZExt(entry.key, i64_), 32);
    b_.CreateStore(b_.CreateOr(high, entry.index), Word(area, i));
    return;
  }
  b_.CreateStore(entry.key, Word(area, i));
  b_.CreateStore(entry.index, Word(area, b_.CreateAdd(i, Int(count_))));
}

llvm::Value* SortEntries::Before(const SortEntry& x, const SortEntry& y) const {
  return b_.CreateICmpULT(x.key, y.key);
}

llvm::Value* SortEntries::Sort() const {
  const Areas areas{frame_.StackSlot(kWordBytes), frame_.StackSlot(kWordBytes)};
  b_.CreateStore(Source(), areas.from);
  b_.CreateStore(b_.CreateConstGEP1_64(i64_, Source(), AreaWords(count_, key_bits_)), areas.to);
  if (UsesRadix(count_)) {
    RadixSort(areas);
  } else {
    MergeSort(areas);
  }
  return b_.CreateLoad(b_.getPtrTy(), areas.from);
}

void SortEntries::Swap(const Areas& areas) const {
  llvm::Value* from = b_.CreateLoad(b_.getPtrTy(), areas.from);
  b_.CreateStore(b_.CreateLoad(b_.getPtrTy(), areas.to), areas.from);
  b_.CreateStore(from, areas.to);
}

void SortEntries::Insert(const SortEntry& entry, llvm::Value* last) const {
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::Function* function = before->getParent();
  auto* look = llvm::BasicBlock::Create(b_.getContext(), "look", function);
  auto* move = llvm::BasicBlock::Create(b_.getContext(), "move", function);
  auto* place = llvm::BasicBlock::Create(b_.getContext(), "place", function);
  b_.CreateBr(look);
  b_.SetInsertPoint(look);
  llvm::PHINode* at = b_.CreatePHI(i64_, 2);
  at->addIncoming(last, before);
  llvm::Value* previous =
      b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, b_.CreateSub(at, Int(1)), Int(0));
  const SortEntry other = Load(Source(), previous);
  b_.CreateCondBr(b_.CreateAnd(b_.CreateICmpSGT(at, Int(0)), Before(entry, other)), move, place);
  b_.SetInsertPoint(move);
  Store(Source(), at, other);
  at->addIncoming(previous, move);
  b_.CreateBr(look);
  b_.SetInsertPoint(place);
  Store(Source(), at, entry);
}

// Sorted runs double until one is left.
void SortEntries::MergeSort(const Areas& areas) const {
  for (int64_t width = 1; width < count_; width *= 2) {
    MergeRuns(b_.CreateLoad(b_.getPtrTy(), areas.from), b_.CreateLoad(b_.getPtrTy(), areas.to),
              Int(width));
    Swap(areas);
  }
}

// Merges neighbouring sorted runs of `width` into runs of twice that length.
void SortEntries::MergeRuns(llvm::Value* from, llvm::Value* to, llvm::Value* width) const {
  const auto least = [&](llvm::Value* x, llvm::Value* y) {
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y);
  };
  llvm::AllocaInst* left = frame_.StackSlot(kWordBytes);
  llvm::AllocaInst* right = frame_.StackSlot(kWordBytes);
  EmitFor(b_, Int(0), Int(count_), b_.CreateShl(width, 1), [&](llvm::Value* low) {
    llvm::Value* middle = least(b_.CreateAdd(low, width), Int(count_));
    llvm::Value* high = least(b_.CreateAdd(middle, width), Int(count_));
    b_.CreateStore(low, left);
    b_.CreateStore(middle, right);
    EmitFor(b_, low, high, Int(1), [&](llvm::Value* out) {
      llvm::Value* i = b_.CreateLoad(i64_, left);
      llvm::Value* j = b_.CreateLoad(i64_, right);
      llvm::Value* last = Int(count_ - 1);
      const SortEntry first = Load(from, least(i, last));
      const SortEntry second = Load(from, least(j, last));
      llvm::Value* not_after = b_.CreateNot(Before(second, first));
      llvm::Value* take_left = b_.CreateAnd(b_.CreateICmpSLT(i, middle),
                                            b_.CreateOr(b_.CreateICmpSGE(j, high), not_after));
      Store(to, out,
            {b_.CreateSelect(take_left, first.key, second.key),
             b_.CreateSelect(take_left, first.index, second.index)});
      llvm::Value* step = b_.CreateZExt(take_left, i64_);
      b_.CreateStore(b_.CreateAdd(i, step), left);
      b_.CreateStore(b_.CreateAdd(j, b_.CreateSub(Int(1), step)), right);
    });
  });
}

// The counter of entries whose digit number `digit` is `value`.
llvm::Value* SortEntries::Counter(llvm::Value* digit, llvm::Value* value) const {
  llvm::Value* counters =
      b_.CreateConstGEP1_64(i64_, frame_.scratch, 2 * AreaWords(count_, key_bits_));
  return b_.CreateGEP(b_.getInt32Ty(), counters,
                      b_.CreateAdd(b_.CreateShl(digit, kDigitBits), value));
}

llvm::Value* SortEntries::Digit(const SortEntry& entry, llvm::Value* digit) const {
  llvm::Value* shift = b_.CreateMul(digit, Int(kDigitBits));
  llvm::Value* shifted = b_.CreateLShr(b_.CreateZExt(entry.key, i64_), shift);
  return b_.CreateAnd(shifted, Int(kDigitValues - 1));
}

// Sorts by one digit after the other, the lowest first. A digit that all keys share moves nothing,
// so small integers and types of 16 bits cost no more than their own digits.
void SortEntries::RadixSort(const Areas& areas) const {
  CountDigits(Source());
  EmitFor(b_, Int(0), Int(key_bits_ / kDigitBits), Int(1), [&](llvm::Value* digit) {
    llvm::Value* from = b_.CreateLoad(b_.getPtrTy(), areas.from);
    llvm::Value* shared =
        b_.CreateLoad(b_.getInt32Ty(), Counter(digit, Digit(Load(from, Int(0)), digit)));
    llvm::Value* all = b_.getInt32(static_cast<uint32_t>(count_));
    EmitIf(b_, b_.CreateICmpNE(shared, all), [&] {
      MoveByDigit(from, b_.CreateLoad(b_.getPtrTy(), areas.to), digit);
      Swap(areas);
    });
  });
}

void SortEntries::CountDigits(llvm::Value* from) const {
  const int digits = key_bits_ / kDigitBits;
  b_.CreateMemSet(Counter(Int(0), Int(0)), b_.getInt8(0),
                  static_cast<uint64_t>(digits * kDigitValues) * sizeof(uint32_t),
                  llvm::MaybeAlign(sizeof(uint32_t)));
  EmitFor(b_, Int(0), Int(count_), Int(1), [&](llvm::Value* i) {
    const SortEntry entry = Load(from, i);
    for (int d = 0; d < digits; ++d) {
      llvm::Value* counter = Counter(Int(d), Digit(entry, Int(d)));
      llvm::Value* count = b_.CreateLoad(b_.getInt32Ty(), counter);
      b_.CreateStore(b_.CreateAdd(count, b_.getInt32(1)), counter);
    }
  });
}

// The counters of the digit become the places of the next entries.
void SortEntries::MoveByDigit(llvm::Value* from, llvm::Value* to, llvm::Value* digit) const {
  llvm::AllocaInst* sum = frame_.StackSlot(sizeof(uint32_t));
  b_.CreateStore(b_.getInt32(0), sum);
  EmitFor(b_, Int(0), Int(kDigitValues), Int(1), [&](llvm::Value* value) {
    llvm::Value* counter = Counter(digit, value);
    llvm::Value* count = b_.CreateLoad(b_.getInt32Ty(), counter);
    llvm::Value* place = b_.CreateLoad(b_.getInt32Ty(), sum);
    b_.CreateStore(place, counter);
    b_.CreateStore(b_.CreateAdd(place, count), sum);
  });
  EmitFor(b_, Int(0), Int(count_), Int(1), [&](llvm::Value* i) {
    const SortEntry entry = Load(from, i);
    llvm::Value* counter = Counter(digit, Digit(entry, digit));
    llvm::Value* place = b_.CreateLoad(b_.getInt32Ty(), counter);
    b_.CreateStore(b_.CreateAdd(place, b_.getInt32(1)), counter);
    Store(to, b_.CreateZExt(place, i64_), entry);
  });
}

}  // namespace hpu::graph_compiler
