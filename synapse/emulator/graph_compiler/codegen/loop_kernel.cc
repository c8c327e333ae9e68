#include "synapse/emulator/graph_compiler/codegen/loop_kernel.h"

#include <algorithm>
#include <bit>
#include <sstream>

#include "synapse/emulator/graph_compiler/codegen/arithmetic.h"
#include "synapse/emulator/graph_compiler/codegen/body.h"
#include "synapse/emulator/graph_compiler/codegen/convert.h"
#include "synapse/emulator/graph_compiler/codegen/ir_loops.h"
#include "synapse/emulator/graph_compiler/codegen/math.h"

namespace hpu::emulator {
namespace {

constexpr int64_t kGrainElements = 16384;
constexpr uint64_t kScratchAlignment = 64;

uint64_t AlignUp(uint64_t value) {
  return (value + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
}

Opcode CombineOp(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kProd:
      return Opcode::kMul;
    case ReduceKind::kMax:
      return Opcode::kMax;
    case ReduceKind::kMin:
      return Opcode::kMin;
    default:
      return Opcode::kAdd;
  }
}

llvm::Constant* Identity(llvm::Type* type, ReduceKind kind) {
  llvm::Type* element = type->getScalarType();
  const auto splat = [&](llvm::Constant* value) -> llvm::Constant* {
    const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
    return vector == nullptr ? value
                             : llvm::ConstantVector::getSplat(vector->getElementCount(), value);
  };
  if (kind == ReduceKind::kSum) return llvm::Constant::getNullValue(type);
  if (element->isFloatTy()) {
    if (kind == ReduceKind::kProd) return splat(llvm::ConstantFP::get(element, 1.0));
    return splat(llvm::ConstantFP::getInfinity(element, kind == ReduceKind::kMax));
  }
  const unsigned bits = element->getIntegerBitWidth();
  if (kind == ReduceKind::kProd) return splat(llvm::ConstantInt::get(element, 1));
  if (bits == 1) return splat(llvm::ConstantInt::get(element, kind == ReduceKind::kMin ? 1 : 0));
  const llvm::APInt limit = kind == ReduceKind::kMax ? llvm::APInt::getSignedMinValue(bits)
                                                     : llvm::APInt::getSignedMaxValue(bits);
  return splat(llvm::ConstantInt::get(element, limit));
}

// Ops whose code is long are not repeated by unrolling.
int UnrollOf(const LoopPass& pass) {
  size_t weight = 0;
  for (const BodyOp& op : pass.body.ops) weight += IsMathOpcode(op.op) ? 8 : 1;
  const bool folds = !pass.results.empty();
  if (weight <= 12) return 4;
  return folds || weight <= 24 ? 2 : 1;
}

class LoopEmitter {
 public:
  LoopEmitter(llvm::IRBuilder<>& builder, const KernelFrame& frame, const TargetInfo& target,
              const LoopKernel& kernel)
      : b_(builder), frame_(frame), target_(target), kernel_(kernel) {}

  void EmitTask(llvm::Value* task) {
    accumulators_.assign(kernel_.accumulators.size(), nullptr);
    PlaceScratch();
    const size_t rank = kernel_.outer.size() + kernel_.inner.size() + 1;
    index_.assign(rank, Int(0));
    llvm::Value* rest = task;
    llvm::Value* block = nullptr;
    if (kernel_.vector_is_row) {
      block = Modulo(rest, BlockCount(), &rest);
    } else if (kernel_.vector_chunk > 0) {
      block = Modulo(rest, ChunkCount(), &rest);
    }
    for (size_t d = kernel_.outer.size(); d-- > 0;) {
      index_[d] = Modulo(rest, kernel_.outer[d], &rest);
    }
    if (kernel_.vector_is_row) {
      EmitRowBlock(block);
    } else {
      EmitRow(block);
    }
  }

 private:
  llvm::Value* Int(int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); }

  llvm::Value* Modulo(llvm::Value* value, int64_t size, llvm::Value** quotient) {
    if (size == 1) return Int(0);
    llvm::Value* divided = b_.CreateUDiv(value, Int(size));
    llvm::Value* rest = b_.CreateSub(value, b_.CreateMul(divided, Int(size)));
    *quotient = divided;
    return rest;
  }

  int64_t RowLanes() const { return std::min<int64_t>(kRowLanes, kernel_.vector); }
  int64_t BlockCount() const { return (kernel_.vector + RowLanes() - 1) / RowLanes(); }
  int64_t ChunkCount() const {
    return (kernel_.vector + kernel_.vector_chunk - 1) / kernel_.vector_chunk;
  }

  void PlaceScratch() {
    uint64_t offset = 0;
    scratch_.clear();
    for (const uint64_t bytes : kernel_.scratch_bytes) {
      scratch_.push_back(b_.CreateConstGEP1_64(b_.getInt8Ty(), frame_.scratch, offset));
      offset += AlignUp(bytes);
    }
    SetScratchOperands(nullptr);
  }

  // With rows as lanes, scratch holds the block's lanes: its address is that of row 0.
  void SetScratchOperands(llvm::Value* first_row) {
    const size_t first = kernel_.operands.size();
    auto& cache = frame_.operand_cache;
    if (cache.size() < first + scratch_.size()) cache.resize(first + scratch_.size());
    for (size_t i = 0; i < scratch_.size(); ++i) {
      llvm::Value* base = scratch_[i];
      if (first_row != nullptr) {
        base = b_.CreateGEP(ElementType(b_.getContext(), kernel_.scratch_types[i]), base,
                            b_.CreateNeg(first_row));
      }
      cache[first + i] = base;
    }
  }

  void For(llvm::Value* begin, llvm::Value* end, int64_t step,
           const std::function<void(llvm::Value*)>& body) {
    EmitFor(b_, begin, end, Int(step), body);
  }

  void ForInner(size_t d, const std::function<void()>& body) {
    if (d == kernel_.inner.size()) {
      body();
      return;
    }
    For(Int(0), Int(kernel_.inner[d]), 1, [&](llvm::Value* i) {
      index_[kernel_.outer.size() + d] = i;
      ForInner(d + 1, body);
    });
  }

  llvm::Value* TailMask(llvm::Value* left, int lanes) {
    std::vector<llvm::Constant*> steps;
    for (int lane = 0; lane < lanes; ++lane)
      steps.push_back(b_.getInt64(static_cast<uint64_t>(lane)));
    llvm::Value* splat = b_.CreateVectorSplat(static_cast<unsigned>(lanes), left);
    return b_.CreateICmpULT(llvm::ConstantVector::get(steps), splat);
  }

  // ---- accumulation ----

  // One stack slot per result and copy; promoted to registers.
  using Slots = std::vector<std::vector<llvm::AllocaInst*>>;  // [copy][result]

  Slots MakeSlots(const LoopPass& pass, int copies, int lanes) {
    Slots slots(static_cast<size_t>(copies));
    for (auto& copy : slots) {
      for (const LoopPass::Result& result : pass.results) {
        llvm::Type* type =
            WithLanes(ElementType(b_.getContext(), pass.body.ops[result.value].type), lanes);
        llvm::BasicBlock& entry = frame_.function->getEntryBlock();
        llvm::IRBuilder<> at_entry(&entry, entry.begin());
        llvm::AllocaInst* slot = at_entry.CreateAlloca(type);
        b_.CreateStore(Identity(type, result.kind), slot);
        copy.push_back(slot);
      }
    }
    return slots;
  }

  llvm::Value* Combine(const LoopPass& pass, size_t r, llvm::Value* x, llvm::Value* y) {
    const ScalarType type = pass.body.ops[pass.results[r].value].type;
    return EmitArithmetic(b_, target_, CombineOp(pass.results[r].kind), type, type, {x, y});
  }

  void Accumulate(const LoopPass& pass, const std::vector<llvm::Value*>& values,
                  const std::vector<llvm::AllocaInst*>& slots, llvm::Value* mask) {
    for (size_t r = 0; r < pass.results.size(); ++r) {
      llvm::Value* value = values[pass.results[r].value];
      if (mask != nullptr) {
        value = b_.CreateSelect(mask, value, Identity(value->getType(), pass.results[r].kind));
      }
      llvm::Value* sum = b_.CreateLoad(value->getType(), slots[r]);
      b_.CreateStore(Combine(pass, r, sum, value), slots[r]);
    }
  }

  // Halves are combined until one lane is left: a fixed order, whatever the target does best.
  llvm::Value* Horizontal(const LoopPass& pass, size_t r, llvm::Value* vector) {
    const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(vector->getType());
    if (type == nullptr) return vector;
    for (unsigned lanes = type->getNumElements() / 2; lanes > 0; lanes /= 2) {
      std::vector<int> low;
      std::vector<int> high;
      for (unsigned i = 0; i < lanes; ++i) {
        low.push_back(static_cast<int>(i));
        high.push_back(static_cast<int>(i + lanes));
      }
      vector = Combine(pass, r, b_.CreateShuffleVector(vector, low),
                       b_.CreateShuffleVector(vector, high));
    }
    return b_.CreateExtractElement(vector, uint64_t{0});
  }

  void FinishResults(const LoopPass& pass, const Slots& slots, bool horizontal) {
    for (size_t r = 0; r < pass.results.size(); ++r) {
      llvm::Value* value = nullptr;
      for (const auto& copy : slots) {
        llvm::Value* part = b_.CreateLoad(copy[r]->getAllocatedType(), copy[r]);
        value = value == nullptr ? part : Combine(pass, r, value, part);
      }
      accumulators_[pass.results[r].accumulator] = horizontal ? Horizontal(pass, r, value) : value;
    }
  }

  void KeepResults(const LoopPass& pass, const std::vector<llvm::Value*>& values) {
    for (const LoopPass::Result& result : pass.results) {
      accumulators_[result.accumulator] = values[result.value];
    }
  }

  // ---- vector dimension = a column (or the innermost dimension of a map) ----

  void EmitRow(llvm::Value* chunk) {
    llvm::Value* begin = Int(0);
    llvm::Value* end = Int(kernel_.vector);
    if (chunk != nullptr) {
      begin = b_.CreateMul(chunk, Int(kernel_.vector_chunk));
      end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin,
                                     b_.CreateAdd(begin, Int(kernel_.vector_chunk)), end);
    }
    for (const LoopPass& pass : kernel_.passes) {
      if (pass.row_level) {
        index_.back() = Int(0);
        const BodyPosition position{index_, 1, nullptr};
        KeepResults(pass, EmitBody(b_, frame_, target_, pass.body, position, accumulators_));
      } else {
        EmitColumns(pass, begin, end);
      }
    }
  }

  int ColumnLanes() const {
    if (kernel_.vector >= target_.f32_lanes) return target_.f32_lanes;
    return static_cast<int>(std::bit_ceil(static_cast<uint64_t>(kernel_.vector)));
  }

  void EmitColumns(const LoopPass& pass, llvm::Value* begin, llvm::Value* end) {
    const int lanes = ColumnLanes();
    const int unroll = kernel_.vector >= lanes * 4 ? UnrollOf(pass) : 1;
    const Slots slots = MakeSlots(pass, unroll, lanes);
    ForInner(0, [&] { EmitVectorLoop(pass, begin, end, lanes, unroll, slots); });
    FinishResults(pass, slots, /*horizontal=*/true);
  }

  void EmitAt(const LoopPass& pass, llvm::Value* at, int lanes, llvm::Value* mask,
              const std::vector<llvm::Value*>& invariants,
              const std::vector<llvm::AllocaInst*>& slots) {
    index_.back() = at;
    const BodyPosition position{index_, lanes, mask};
    const auto values =
        EmitBody(b_, frame_, target_, pass.body, position, accumulators_, &invariants);
    Accumulate(pass, values, slots, mask);
  }

  void EmitVectorLoop(const LoopPass& pass, llvm::Value* begin, llvm::Value* end, int lanes,
                      int unroll, const Slots& slots) {
    index_.back() = begin;
    const BodyPosition here{index_, lanes, nullptr};
    const auto invariants = EmitInvariants(b_, frame_, target_, pass.body, here, accumulators_);
    llvm::Value* count = b_.CreateSub(end, begin);
    const auto full_end = [&](int64_t step) {
      llvm::Value* whole = b_.CreateMul(b_.CreateUDiv(count, Int(step)), Int(step));
      return b_.CreateAdd(begin, whole);
    };
    llvm::Value* at = begin;
    if (unroll > 1) {
      llvm::Value* stop = full_end(int64_t{lanes} * unroll);
      For(at, stop, int64_t{lanes} * unroll, [&](llvm::Value* i) {
        for (int u = 0; u < unroll; ++u) {
          EmitAt(pass, b_.CreateAdd(i, Int(int64_t{u} * lanes)), lanes, nullptr, invariants,
                 slots[static_cast<size_t>(u)]);
        }
      });
      at = stop;
    }
    llvm::Value* stop = full_end(lanes);
    For(at, stop, lanes,
        [&](llvm::Value* i) { EmitAt(pass, i, lanes, nullptr, invariants, slots[0]); });
    const bool whole = kernel_.vector % lanes == 0 && kernel_.vector_chunk % lanes == 0;
    if (lanes == 1 || whole) return;
    // At most one masked vector is left.
    For(stop, end, lanes, [&](llvm::Value* i) {
      EmitAt(pass, i, lanes, TailMask(b_.CreateSub(end, i), lanes), invariants, slots[0]);
    });
  }

  // ---- vector dimension = a row: lanes are rows ----

  void EmitRowBlock(llvm::Value* block) {
    const auto lanes = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(RowLanes())));
    llvm::Value* first = b_.CreateMul(block, Int(RowLanes()));
    SetScratchOperands(first);
    if (lanes == RowLanes() && kernel_.vector % lanes == 0) {
      EmitRowPasses(first, lanes, nullptr);
      return;
    }
    llvm::Value* left = b_.CreateSub(Int(kernel_.vector), first);
    llvm::LLVMContext& context = b_.getContext();
    auto* full = llvm::BasicBlock::Create(context, "full", frame_.function);
    auto* tail = llvm::BasicBlock::Create(context, "tail", frame_.function);
    auto* done = llvm::BasicBlock::Create(context, "done_block", frame_.function);
    b_.CreateCondBr(b_.CreateICmpSGE(left, Int(lanes)), full, tail);
    b_.SetInsertPoint(full);
    EmitRowPasses(first, lanes, nullptr);
    b_.CreateBr(done);
    b_.SetInsertPoint(tail);
    EmitRowPasses(first, lanes, TailMask(left, lanes));
    b_.CreateBr(done);
    b_.SetInsertPoint(done);
  }

  void EmitRowPasses(llvm::Value* first, int lanes, llvm::Value* mask) {
    index_.back() = first;
    for (const LoopPass& pass : kernel_.passes) {
      const auto emit = [&] {
        const BodyPosition position{index_, lanes, mask};
        return EmitBody(b_, frame_, target_, pass.body, position, accumulators_);
      };
      if (pass.row_level) {
        KeepResults(pass, emit());
        continue;
      }
      const Slots slots = MakeSlots(pass, 1, lanes);
      ForInner(0, [&] { Accumulate(pass, emit(), slots[0], nullptr); });
      FinishResults(pass, slots, /*horizontal=*/false);
    }
  }

  llvm::IRBuilder<>& b_;
  const KernelFrame& frame_;
  const TargetInfo& target_;
  const LoopKernel& kernel_;
  std::vector<llvm::Value*> index_;
  std::vector<llvm::Value*> accumulators_;  // scalars, or vectors where rows are lanes
  std::vector<llvm::Value*> scratch_;
};

// Loads of element numbers become arithmetic on iteration indices.
Body LowerIota(const Body& body) {
  Body result;
  std::vector<uint32_t> remap;
  const auto append = [&](BodyOp op) {
    result.ops.push_back(std::move(op));
    return static_cast<uint32_t>(result.ops.size() - 1);
  };
  const auto constant = [&](int64_t value) {
    return append(BodyOp{Opcode::kConstInt, ScalarType::kI64, {}, 0, value, {}});
  };
  for (const BodyOp& op : body.ops) {
    BodyOp copy = op;
    for (uint32_t& arg : copy.args) arg = remap[arg];
    if (copy.op == Opcode::kLoad && copy.access.indirect_value != kNoValue) {
      copy.access.indirect_value = remap[copy.access.indirect_value];
    }
    if (copy.op != Opcode::kLoad || copy.access.operand != kIotaOperand) {
      remap.push_back(append(std::move(copy)));
      continue;
    }
    uint32_t sum = constant(copy.access.offset);
    for (size_t d = 0; d < copy.access.strides.size(); ++d) {
      if (copy.access.strides[d] == 0) continue;
      const uint32_t index =
          append(BodyOp{Opcode::kIndex, ScalarType::kI64, {}, 0, static_cast<int64_t>(d), {}});
      const uint32_t factor = constant(copy.access.strides[d]);
      const uint32_t step =
          append(BodyOp{Opcode::kMul, ScalarType::kI64, {index, factor}, 0, 0, {}});
      sum = append(BodyOp{Opcode::kAdd, ScalarType::kI64, {sum, step}, 0, 0, {}});
    }
    remap.push_back(sum);
  }
  for (Store store : body.stores) {
    store.value = remap[store.value];
    if (store.access.indirect_value != kNoValue) {
      store.access.indirect_value = remap[store.access.indirect_value];
    }
    result.stores.push_back(store);
  }
  return result;
}

// Results refer to ops by number: they ride through LowerIota as stores.
LoopPass LowerIota(const LoopPass& pass) {
  LoopPass result = pass;
  for (const LoopPass::Result& r : pass.results) result.body.stores.push_back({r.value, Access{}});
  result.body = LowerIota(result.body);
  for (size_t r = pass.results.size(); r-- > 0;) {
    result.results[r].value = result.body.stores.back().value;
    result.body.stores.pop_back();
  }
  return result;
}

void PrintShape(std::ostream& out, const Shape& shape) {
  for (const int64_t size : shape) out << size << ',';
  out << ';';
}

}  // namespace

uint64_t LoopKernel::Tasks() const {
  const int64_t rows = NumElements(outer);
  if (vector_is_row) {
    const int64_t lanes = std::min<int64_t>(kRowLanes, vector);
    return static_cast<uint64_t>(rows * ((vector + lanes - 1) / lanes));
  }
  if (vector_chunk > 0) {
    return static_cast<uint64_t>(rows * ((vector + vector_chunk - 1) / vector_chunk));
  }
  return static_cast<uint64_t>(rows);
}

uint64_t LoopKernel::Grain() const {
  const int64_t elements = NumElements(outer) * NumElements(inner) * vector;
  const int64_t per_task =
      std::max<int64_t>(elements / static_cast<int64_t>(std::max<uint64_t>(Tasks(), 1)), 1);
  return static_cast<uint64_t>(std::max<int64_t>(kGrainElements / per_task, 1));
}

uint64_t LoopKernel::ScratchBytes() const {
  uint64_t bytes = 0;
  for (const uint64_t area : scratch_bytes) bytes += AlignUp(area);
  return bytes;
}

std::string LoopKernel::Structure() const {
  std::ostringstream out;
  PrintShape(out, outer);
  PrintShape(out, inner);
  out << vector << ' ' << vector_is_row << serial << ' ' << vector_chunk << ' ' << operands.size();
  for (const uint64_t bytes : scratch_bytes) out << ' ' << bytes;
  for (const LoopPass& pass : passes) {
    out << "\npass " << pass.row_level << '\n' << ToText(pass.body);
    for (const BodyOp& op : pass.body.ops) {
      if (op.op == Opcode::kConstF32) out << std::hexfloat << op.imm_f32 << ' ';
    }
    for (const LoopPass::Result& r : pass.results) {
      out << " result " << r.value << ' ' << static_cast<int>(r.kind) << ' ' << r.accumulator;
    }
  }
  return out.str();
}

void EmitLoopKernel(KernelModule& module, const LoopKernel& kernel) {
  LoopKernel lowered = kernel;
  for (LoopPass& pass : lowered.passes) pass = LowerIota(pass);
  module.AddKernel(kernel.name,
                   [&](llvm::IRBuilder<>& builder, const KernelFrame& frame, llvm::Value* task) {
                     LoopEmitter(builder, frame, module.target(), lowered).EmitTask(task);
                   });
}

}  // namespace hpu::emulator
