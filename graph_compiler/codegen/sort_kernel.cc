#include "graph_compiler/codegen/sort_kernel.h"

#include <sstream>

#include "graph_compiler/codegen/body.h"
#include "graph_compiler/codegen/ir_loops.h"
#include "graph_compiler/codegen/memory_access.h"

namespace hpu::graph_compiler {
namespace {

constexpr int64_t kKeyBytes = 8;
constexpr int64_t kIndexBytes = 8;
// Up to this many results are kept in order while the elements pass. Where every element is better
// than all before it, each one moves all of the results, and that takes about as long as sorting.
constexpr int64_t kMostSelected = 64;

Access AccessOfView(const View& view, uint32_t operand) {
  return {operand, view.type, view.strides, view.offset};
}

class SortEmitter {
 public:
  SortEmitter(llvm::IRBuilder<>& builder, const KernelFrame& frame, const TargetInfo& target,
              const SortKernel& kernel)
      : b_(builder), frame_(frame), target_(target), kernel_(kernel), i64_(builder.getInt64Ty()) {}

  // The scratch memory holds keys and indices, twice; merging goes from one pair to the other. A
  // selection uses the first pair.
  void EmitTask(llvm::Value* task) {
    index_.assign(kernel_.rows.size() + 1, b_.getInt64(0));
    for (size_t d = kernel_.rows.size(); d-- > 0;) {
      llvm::Value* size = Int(kernel_.rows[d]);
      llvm::Value* rest = b_.CreateUDiv(task, size);
      index_[d] = b_.CreateSub(task, b_.CreateMul(rest, size));
      task = rest;
    }
    llvm::Value* from = frame_.scratch;
    llvm::Value* to =
        b_.CreateConstGEP1_64(i64_, frame_.scratch, static_cast<uint64_t>(2 * kernel_.n));
    if (kernel_.k > 0 && kernel_.k <= kMostSelected && kernel_.k < kernel_.n / 4) {
      Select(from);
      return WriteResults(from);
    }
    FillKeys(from);
    for (int64_t width = 1; width < kernel_.n; width *= 2) {
      MergeRuns(from, to, width);
      std::swap(from, to);
    }
    WriteResults(from);
  }

 private:
  llvm::Value* Int(int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); }
  llvm::Value* Key(llvm::Value* area, llvm::Value* i) { return b_.CreateGEP(i64_, area, i); }
  llvm::Value* Index(llvm::Value* area, llvm::Value* i) {
    return b_.CreateGEP(i64_, area, b_.CreateAdd(i, Int(kernel_.n)));
  }

  llvm::Value* LoadElement(llvm::Value* i) {
    index_.back() = i;
    const BodyPosition position{index_, 1, nullptr};
    return MemoryAccess(b_, frame_, target_, position).LoadScalar(kernel_.in, nullptr);
  }

  void StoreElement(const Access& access, llvm::Value* i, llvm::Value* value, ScalarType type) {
    index_.back() = i;
    const BodyPosition position{index_, 1, nullptr};
    MemoryAccess(b_, frame_, target_, position).Store(access, value, type, nullptr);
  }

  llvm::Value* OrderedKey(llvm::Value* value) {
    llvm::Value* key = nullptr;
    if (value->getType()->isFloatTy()) {
      // Negative floats order backwards as integers, so their magnitude bits are flipped. -0 equals
      // 0.
      llvm::Value* clean = b_.CreateFAdd(value, llvm::ConstantFP::get(value->getType(), 0.0));
      llvm::Value* bits = b_.CreateBitCast(clean, b_.getInt32Ty());
      llvm::Value* flip = b_.CreateLShr(b_.CreateAShr(bits, b_.getInt32(31)), b_.getInt32(1));
      llvm::Value* is_nan = b_.CreateFCmpUNO(value, value);
      key = b_.CreateSelect(is_nan, b_.getInt32(0x7fffffff), b_.CreateXor(bits, flip));
      key = b_.CreateSExt(key, i64_);
    } else if (value->getType()->isIntegerTy(1)) {
      key = b_.CreateZExt(value, i64_);
    } else {
      key = b_.CreateSExt(value, i64_);
    }
    return kernel_.descending ? b_.CreateNot(key) : key;
  }

  void FillKeys(llvm::Value* area) {
    EmitFor(b_, Int(0), Int(kernel_.n), Int(1), [&](llvm::Value* i) {
      b_.CreateStore(OrderedKey(LoadElement(i)), Key(area, i));
      b_.CreateStore(i, Index(area, i));
    });
  }

  // Selects the first k of all elements in order. Of equal elements the earlier one stays before
  // the later one.
  void Select(llvm::Value* area) {
    EmitFor(b_, Int(0), Int(kernel_.k), Int(1),
            [&](llvm::Value* i) { Insert(area, OrderedKey(LoadElement(i)), i, i); });
    llvm::Value* last = Int(kernel_.k - 1);
    EmitFor(b_, Int(kernel_.k), Int(kernel_.n), Int(1), [&](llvm::Value* i) {
      llvm::Value* key = OrderedKey(LoadElement(i));
      llvm::Value* worst = b_.CreateLoad(i64_, Key(area, last));
      EmitIf(b_, b_.CreateICmpSLT(key, worst), [&] { Insert(area, key, i, last); });
    });
  }

  // Inserts (key, i) where it belongs among the first `last` entries, which are in order; entry
  // `last` is overwritten.
  void Insert(llvm::Value* area, llvm::Value* key, llvm::Value* i, llvm::Value* last) {
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
    llvm::Value* other = b_.CreateLoad(i64_, Key(area, previous));
    llvm::Value* goes_before =
        b_.CreateAnd(b_.CreateICmpSGT(at, Int(0)), b_.CreateICmpSLT(key, other));
    b_.CreateCondBr(goes_before, move, place);
    b_.SetInsertPoint(move);
    b_.CreateStore(other, Key(area, at));
    b_.CreateStore(b_.CreateLoad(i64_, Index(area, previous)), Index(area, at));
    at->addIncoming(previous, move);
    b_.CreateBr(look);
    b_.SetInsertPoint(place);
    b_.CreateStore(key, Key(area, at));
    b_.CreateStore(i, Index(area, at));
  }

  llvm::Value* Least(llvm::Value* x, llvm::Value* y) {
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y);
  }

  // Merges neighbouring sorted runs of `width` into runs of twice that length.
  void MergeRuns(llvm::Value* from, llvm::Value* to, int64_t width) {
    EmitFor(b_, Int(0), Int(kernel_.n), Int(2 * width), [&](llvm::Value* low) {
      llvm::Value* middle = Least(b_.CreateAdd(low, Int(width)), Int(kernel_.n));
      llvm::Value* high = Least(b_.CreateAdd(low, Int(2 * width)), Int(kernel_.n));
      llvm::AllocaInst* left = frame_.StackSlot(8);
      llvm::AllocaInst* right = frame_.StackSlot(8);
      b_.CreateStore(low, left);
      b_.CreateStore(middle, right);
      EmitFor(b_, low, high, Int(1), [&](llvm::Value* out) {
        llvm::Value* i = b_.CreateLoad(i64_, left);
        llvm::Value* j = b_.CreateLoad(i64_, right);
        llvm::Value* last = Int(kernel_.n - 1);
        llvm::Value* left_key = b_.CreateLoad(i64_, Key(from, Least(i, last)));
        llvm::Value* right_key = b_.CreateLoad(i64_, Key(from, Least(j, last)));
        llvm::Value* right_empty = b_.CreateICmpSGE(j, high);
        llvm::Value* not_after = b_.CreateICmpSLE(left_key, right_key);
        llvm::Value* take_left =
            b_.CreateAnd(b_.CreateICmpSLT(i, middle), b_.CreateOr(right_empty, not_after));
        llvm::Value* source = b_.CreateSelect(take_left, i, j);
        b_.CreateStore(b_.CreateLoad(i64_, Key(from, source)), Key(to, out));
        b_.CreateStore(b_.CreateLoad(i64_, Index(from, source)), Index(to, out));
        llvm::Value* step = b_.CreateZExt(take_left, i64_);
        b_.CreateStore(b_.CreateAdd(i, step), left);
        b_.CreateStore(b_.CreateAdd(j, b_.CreateSub(Int(1), step)), right);
      });
    });
  }

  void WriteResults(llvm::Value* area) {
    EmitFor(b_, Int(0), Int(kernel_.k), Int(1), [&](llvm::Value* i) {
      llvm::Value* source = b_.CreateLoad(i64_, Index(area, i));
      if (kernel_.has_values) {
        StoreElement(kernel_.values, i, LoadElement(source), ComputeType(kernel_.in.type));
      }
      if (kernel_.has_indices) StoreElement(kernel_.indices, i, source, ScalarType::kI64);
    });
  }

  llvm::IRBuilder<>& b_;
  const KernelFrame& frame_;
  const TargetInfo& target_;
  const SortKernel& kernel_;
  llvm::Type* i64_;
  std::vector<llvm::Value*> index_;
};

void AppendAccess(std::ostream& out, const Access& access) {
  out << static_cast<int>(access.type) << ' ' << access.offset << ' ';
  for (const int64_t stride : access.strides) out << stride << ',';
  out << '\n';
}

}  // namespace

uint64_t SortKernel::Tasks() const { return static_cast<uint64_t>(NumElements(rows)); }

uint64_t SortKernel::ScratchBytes() const {
  return static_cast<uint64_t>(2 * n * (kKeyBytes + kIndexBytes));
}

std::string SortKernel::Structure() const {
  std::ostringstream out;
  for (const int64_t size : rows) out << size << ',';
  out << n << ' ' << k << ' ' << has_values << has_indices << descending << '\n';
  AppendAccess(out, in);
  if (has_values) AppendAccess(out, values);
  if (has_indices) AppendAccess(out, indices);
  return out.str();
}

SortKernel MakeSortKernel(const Node& node) {
  SortKernel kernel;
  const Sort& sort = std::get<Sort>(node.kind);
  kernel.rows.assign(sort.in.shape.begin(), sort.in.shape.end() - 1);
  kernel.n = sort.in.shape.back();
  kernel.k = node.domain.back();
  kernel.in = AccessOfView(sort.in, 0);
  kernel.has_values = sort.values.has_value();
  kernel.has_indices = sort.indices.has_value();
  kernel.descending = sort.descending;
  if (sort.values.has_value()) kernel.values = AccessOfView(*sort.values, 1);
  if (sort.indices.has_value()) kernel.indices = AccessOfView(*sort.indices, 2);
  return kernel;
}

void EmitSortKernel(KernelModule& module, const SortKernel& kernel) {
  module.AddKernel("sort",
                   [&](llvm::IRBuilder<>& builder, const KernelFrame& frame, llvm::Value* task) {
                     SortEmitter(builder, frame, module.target(), kernel).EmitTask(task);
                   });
}

}  // namespace hpu::graph_compiler
