#include "graph_compiler/codegen/sort_kernel.h"

#include <cstdint>
#include <sstream>

#include "graph_compiler/codegen/body.h"
#include "graph_compiler/codegen/ir_loops.h"
#include "graph_compiler/codegen/memory_access.h"
#include "graph_compiler/codegen/sort_entries.h"

namespace hpu::graph_compiler {
namespace {

// Up to this many results are kept in order while the elements pass. Where every element is better
// than all before it, each one moves all of the results, and that takes about as long as sorting.
constexpr int64_t kMostSelected = 64;

Access AccessOfView(const View& view, uint32_t operand) {
  return {operand, view.type, view.strides, view.offset};
}

int KeyBits(const SortKernel& kernel) {
  return ComputeType(kernel.in.type) == ScalarType::kI64 || kernel.n > UINT32_MAX ? 64 : 32;
}

class SortEmitter {
 public:
  SortEmitter(llvm::IRBuilder<>& builder, const KernelFrame& frame, const TargetInfo& target,
              const SortKernel& kernel)
      : b_(builder),
        frame_(frame),
        target_(target),
        kernel_(kernel),
        entries_(builder, frame, kernel.n, KeyBits(kernel)) {}

  void EmitTask(llvm::Value* task) {
    index_.assign(kernel_.rows.size() + 1, b_.getInt64(0));
    for (size_t d = kernel_.rows.size(); d-- > 0;) {
      llvm::Value* size = Int(kernel_.rows[d]);
      llvm::Value* rest = b_.CreateUDiv(task, size);
      index_[d] = b_.CreateSub(task, b_.CreateMul(rest, size));
      task = rest;
    }
    if (kernel_.k > 0 && kernel_.k <= kMostSelected && kernel_.k < kernel_.n / 4) {
      Select();
      return WriteResults(entries_.Source());
    }
    EmitFor(b_, Int(0), Int(kernel_.n), Int(1),
            [&](llvm::Value* i) { entries_.Store(entries_.Source(), i, EntryOf(i)); });
    WriteResults(entries_.Sort());
  }

 private:
  llvm::Value* Int(int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); }

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

  // Keys order as the elements do. NaN is the greatest, and -0 equals 0.
  SortEntry EntryOf(llvm::Value* i) {
    llvm::Value* value = LoadElement(i);
    llvm::Type* type = b_.getIntNTy(static_cast<unsigned>(KeyBits(kernel_)));
    llvm::Value* key = nullptr;
    if (value->getType()->isFloatTy()) {
      // Negative floats order backwards as integers, so their magnitude bits are flipped.
      llvm::Value* clean = b_.CreateFAdd(value, llvm::ConstantFP::get(value->getType(), 0.0));
      llvm::Value* bits = b_.CreateBitCast(clean, b_.getInt32Ty());
      llvm::Value* flip = b_.CreateLShr(b_.CreateAShr(bits, 31), 1);
      llvm::Value* is_nan = b_.CreateFCmpUNO(value, value);
      key = b_.CreateSelect(is_nan, b_.getInt32(0x7fffffff), b_.CreateXor(bits, flip));
      key = b_.CreateSExt(key, type);
    } else if (value->getType()->isIntegerTy(1)) {
      key = b_.CreateZExt(value, type);
    } else {
      key = b_.CreateSExt(value, type);
    }
    // Entries compare as unsigned numbers.
    const auto sign = llvm::APInt::getSignMask(type->getIntegerBitWidth());
    key = b_.CreateXor(key, llvm::ConstantInt::get(type, sign));
    return {kernel_.descending ? b_.CreateNot(key) : key, i};
  }

  // Selects the first k of all elements in order. Of equal elements the earlier one stays before
  // the later one.
  void Select() {
    EmitFor(b_, Int(0), Int(kernel_.k), Int(1),
            [&](llvm::Value* i) { entries_.Insert(EntryOf(i), i); });
    llvm::Value* last = Int(kernel_.k - 1);
    EmitFor(b_, Int(kernel_.k), Int(kernel_.n), Int(1), [&](llvm::Value* i) {
      const SortEntry entry = EntryOf(i);
      const SortEntry worst = entries_.Load(entries_.Source(), last);
      EmitIf(b_, entries_.Before(entry, worst), [&] { entries_.Insert(entry, last); });
    });
  }

  void WriteResults(llvm::Value* area) {
    EmitFor(b_, Int(0), Int(kernel_.k), Int(1), [&](llvm::Value* i) {
      llvm::Value* source = entries_.Load(area, i).index;
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
  const SortEntries entries_;
  std::vector<llvm::Value*> index_;
};

void AppendAccess(std::ostream& out, const Access& access) {
  out << static_cast<int>(access.type) << ' ' << access.offset << ' ';
  for (const int64_t stride : access.strides) out << stride << ',';
  out << '\n';
}

}  // namespace

uint64_t SortKernel::Tasks() const { return static_cast<uint64_t>(NumElements(rows)); }

uint64_t SortKernel::ScratchBytes() const { return SortEntries::ScratchBytes(n, KeyBits(*this)); }

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
