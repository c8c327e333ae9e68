// Code that sorts entries in scratch memory. An entry is the key of an element and its index.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <cstdint>

#include "graph_compiler/codegen/module.h"

namespace hpu::graph_compiler {

// Keys order as unsigned numbers. Entries with equal keys order by their index, so that every sort
// is stable.
struct SortEntry {
  llvm::Value* key = nullptr;    // i32 or i64
  llvm::Value* index = nullptr;  // i64
};

// Keys of 32 bits share a word of 64 bits with their index, which is the lower half. Keys of 64
// bits lie in front of the indices.
class SortEntries {
 public:
  // `key_bits` is 32 or 64, and `count` is less than 2^32 where it is 32.
  SortEntries(llvm::IRBuilder<>& builder, const KernelFrame& frame, int64_t count, int key_bits);

  // Returns the bytes of scratch memory that the sort of one row needs.
  static uint64_t ScratchBytes(int64_t count, int key_bits);

  // Returns the address at which the entries have to be before Sort or Insert.
  llvm::Value* Source() const { return frame_.scratch; }

  SortEntry Load(llvm::Value* area, llvm::Value* i) const;
  void Store(llvm::Value* area, llvm::Value* i, const SortEntry& entry) const;

  // Sorts the entries at Source() and returns where they are then.
  llvm::Value* Sort() const;
  // Inserts `entry` where it belongs among the first `last` entries at Source(), which are in
  // order; entry `last` is overwritten.
  void Insert(const SortEntry& entry, llvm::Value* last) const;
  // Returns whether `x` orders before `y`, whose index is not smaller where the keys are equal.
  llvm::Value* Before(const SortEntry& x, const SortEntry& y) const;

 private:
  struct Areas {
    llvm::AllocaInst* from;
    llvm::AllocaInst* to;
  };

  bool packed() const { return key_bits_ == 32; }
  llvm::Value* Int(int64_t value) const { return b_.getInt64(static_cast<uint64_t>(value)); }
  llvm::Value* Word(llvm::Value* area, llvm::Value* i) const;
  llvm::Value* Counter(llvm::Value* digit, llvm::Value* value) const;
  llvm::Value* Digit(const SortEntry& entry, llvm::Value* digit) const;
  void Swap(const Areas& areas) const;
  void MergeSort(const Areas& areas) const;
  void MergeRuns(llvm::Value* from, llvm::Value* to, llvm::Value* width) const;
  void RadixSort(const Areas& areas) const;
  void CountDigits(llvm::Value* from) const;
  void MoveByDigit(llvm::Value* from, llvm::Value* to, llvm::Value* digit) const;

  llvm::IRBuilder<>& b_;
  const KernelFrame& frame_;
  int64_t count_;
  int key_bits_;
  llvm::Type* i64_;
};

}  // namespace hpu::graph_compiler
