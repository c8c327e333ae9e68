#include "graph_compiler/codegen/memory_access.h"

#include <llvm/IR/Intrinsics.h>

#include "graph_compiler/codegen/convert.h"

namespace hpu::graph_compiler {
namespace {

llvm::Align AlignOf(MemoryType type) {
  return llvm::Align(static_cast<uint64_t>(MemoryTypeSize(type)));
}

bool IsVector(llvm::Value* value) { return value->getType()->isVectorTy(); }

}  // namespace

llvm::Value* MemoryAccess::ClampIndirect(const Access& access, llvm::Value* index) {
  llvm::Type* i64 = WithLanesOf(b_.getInt64Ty(), index->getType());
  llvm::Value* wide = b_.CreateSExt(index, i64);
  llvm::Value* zero = llvm::ConstantInt::get(i64, 0);
  llvm::Value* last = llvm::ConstantInt::get(i64, static_cast<uint64_t>(access.indirect_limit - 1));
  wide = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, wide, zero);
  return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, wide, last);
}

llvm::Value* MemoryAccess::IsInside(const Access& access, llvm::Value* index) {
  llvm::Type* i64 = WithLanesOf(b_.getInt64Ty(), index->getType());
  // A negative index is a large unsigned one.
  return b_.CreateICmpULT(
      b_.CreateSExt(index, i64),
      llvm::ConstantInt::get(i64, static_cast<uint64_t>(access.indirect_limit)));
}

llvm::Value* MemoryAccess::Address(const Access& access, llvm::Value* scalar_indirect) {
  llvm::Value* element = b_.getInt64(static_cast<uint64_t>(access.offset));
  for (size_t d = 0; d < access.strides.size(); ++d) {
    if (access.strides[d] == 0) continue;
    llvm::Value* step =
        b_.CreateMul(position_.index[d], b_.getInt64(static_cast<uint64_t>(access.strides[d])));
    element = b_.CreateAdd(element, step);
  }
  if (scalar_indirect != nullptr) {
    llvm::Value* step = b_.CreateMul(ClampIndirect(access, scalar_indirect),
                                     b_.getInt64(static_cast<uint64_t>(access.indirect_stride)));
    element = b_.CreateAdd(element, step);
  }
  return b_.CreateGEP(ElementType(b_.getContext(), access.type), frame_.BaseOf(b_, access.operand),
                      element);
}

llvm::Value* MemoryAccess::LaneStep(const Access& access, llvm::Value* lane) {
  return b_.CreateMul(lane, b_.getInt64(static_cast<uint64_t>(access.strides.back())));
}

llvm::Value* MemoryAccess::ValidLanes() {
  if (position_.mask == nullptr) return b_.getInt64(static_cast<uint64_t>(position_.lanes));
  llvm::Type* bits = b_.getIntNTy(static_cast<unsigned>(position_.lanes));
  llvm::Value* count =
      b_.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, b_.CreateBitCast(position_.mask, bits));
  return b_.CreateZExtOrTrunc(count, b_.getInt64Ty());
}

bool MemoryAccess::HasMaskedMoves(MemoryType type) const {
  if (target_.isa >= IsaLevel::kV4) return true;
  return target_.isa == IsaLevel::kV3 && MemoryTypeSize(type) >= 4;
}

void MemoryAccess::ForEachLane(llvm::Value* count, const std::function<void(llvm::Value*)>& emit) {
  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto* loop = llvm::BasicBlock::Create(b_.getContext(), "lane", frame_.function);
  auto* after = llvm::BasicBlock::Create(b_.getContext(), "lanes_done", frame_.function);
  b_.CreateBr(loop);
  b_.SetInsertPoint(loop);
  llvm::PHINode* lane = b_.CreatePHI(b_.getInt64Ty(), 2, "lane");
  lane->addIncoming(b_.getInt64(0), before);
  emit(lane);
  llvm::Value* next = b_.CreateNUWAdd(lane, b_.getInt64(1));
  lane->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpULT(next, count), loop, after);
  b_.SetInsertPoint(after);
}

llvm::Value* MemoryAccess::LoadScalar(const Access& access, llvm::Value* indirect) {
  llvm::Value* raw = b_.CreateAlignedLoad(ElementType(b_.getContext(), access.type),
                                          Address(access, indirect), AlignOf(access.type));
  return Widen(b_, target_, raw, access.type);
}

llvm::Value* MemoryAccess::LoadVector(const Access& access, llvm::Value* address) {
  llvm::Type* element = ElementType(b_.getContext(), access.type);
  llvm::Type* vector = WithLanes(element, position_.lanes);
  if (position_.mask == nullptr) {
    return b_.CreateAlignedLoad(vector, address, AlignOf(access.type));
  }
  if (HasMaskedMoves(access.type)) {
    return b_.CreateMaskedLoad(vector, address, AlignOf(access.type), position_.mask,
                               llvm::Constant::getNullValue(vector));
  }
  const auto bytes = static_cast<uint64_t>(position_.lanes * MemoryTypeSize(access.type));
  llvm::Value* slot = frame_.StackSlot(bytes);
  b_.CreateAlignedStore(llvm::Constant::getNullValue(vector), slot, AlignOf(access.type));
  ForEachLane(ValidLanes(), [&](llvm::Value* lane) {
    llvm::Value* value =
        b_.CreateAlignedLoad(element, b_.CreateGEP(element, address, lane), AlignOf(access.type));
    b_.CreateAlignedStore(value, b_.CreateGEP(element, slot, lane), AlignOf(access.type));
  });
  return b_.CreateAlignedLoad(vector, slot, AlignOf(access.type));
}

// Loads lane by lane. Missing lanes read the last lane that exists, so that every address is legal.
llvm::Value* MemoryAccess::LoadGathered(const Access& access, llvm::Value* address,
                                        llvm::Value* indices) {
  llvm::Type* element = ElementType(b_.getContext(), access.type);
  llvm::Value* last = nullptr;
  if (position_.mask != nullptr) last = b_.CreateSub(ValidLanes(), b_.getInt64(1));
  llvm::Value* clamped = indices == nullptr ? nullptr : ClampIndirect(access, indices);
  llvm::Value* result = llvm::PoisonValue::get(WithLanes(element, position_.lanes));
  for (int i = 0; i < position_.lanes; ++i) {
    llvm::Value* lane = b_.getInt64(static_cast<uint64_t>(i));
    if (last != nullptr) lane = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, lane, last);
    llvm::Value* step = LaneStep(access, lane);
    if (clamped != nullptr) {
      llvm::Value* index = b_.CreateExtractElement(clamped, static_cast<uint64_t>(i));
      step = b_.CreateAdd(
          step, b_.CreateMul(index, b_.getInt64(static_cast<uint64_t>(access.indirect_stride))));
    }
    llvm::Value* value =
        b_.CreateAlignedLoad(element, b_.CreateGEP(element, address, step), AlignOf(access.type));
    result = b_.CreateInsertElement(result, value, static_cast<uint64_t>(i));
  }
  return result;
}

llvm::Value* MemoryAccess::LoadLanes(const Access& access, llvm::Value* indirect) {
  const bool scattered = indirect != nullptr && IsVector(indirect);
  const int64_t stride = access.strides.empty() ? 0 : access.strides.back();
  if (!scattered && (stride == 0 || position_.lanes == 1)) {
    llvm::Value* value = LoadScalar(access, indirect);
    if (position_.lanes == 1) return value;
    return b_.CreateVectorSplat(static_cast<unsigned>(position_.lanes), value);
  }
  llvm::Value* address = Address(access, scattered ? nullptr : indirect);
  llvm::Value* raw = !scattered && stride == 1
                         ? LoadVector(access, address)
                         : LoadGathered(access, address, scattered ? indirect : nullptr);
  return Widen(b_, target_, raw, access.type);
}

void MemoryAccess::StoreVector(const Access& access, llvm::Value* raw, llvm::Value* address) {
  if (position_.mask == nullptr) {
    b_.CreateAlignedStore(raw, address, AlignOf(access.type));
  } else {
    b_.CreateMaskedStore(raw, address, AlignOf(access.type), position_.mask);
  }
}

void MemoryAccess::Store(const Access& access, llvm::Value* value, ScalarType from,
                         llvm::Value* indirect) {
  const bool scattered = indirect != nullptr && IsVector(indirect);
  const int64_t stride = access.strides.empty() ? 0 : access.strides.back();
  if (IsVector(value) && !scattered && stride == 0)
    value = b_.CreateExtractElement(value, uint64_t{0});
  llvm::Value* raw = Narrow(b_, target_, value, from, access.type);
  llvm::Value* address = Address(access, scattered ? nullptr : indirect);
  // A store at an index outside of the buffer goes to a slot that nobody reads.
  const int64_t slot_bytes = position_.lanes * MemoryTypeSize(access.type);
  llvm::Value* nowhere =
      indirect == nullptr ? nullptr : frame_.StackSlot(static_cast<uint64_t>(slot_bytes));
  llvm::Value* inside = indirect == nullptr ? nullptr : IsInside(access, indirect);
  const auto target = [&](llvm::Value* at, llvm::Value* is_inside) {
    return is_inside == nullptr ? at : b_.CreateSelect(is_inside, at, nowhere);
  };
  if (position_.lanes == 1 || (!scattered && stride == 0)) {
    b_.CreateAlignedStore(raw, target(address, inside), AlignOf(access.type));
    return;
  }
  if (!IsVector(raw)) raw = b_.CreateVectorSplat(static_cast<unsigned>(position_.lanes), raw);
  const bool contiguous = !scattered && stride == 1;
  if (contiguous && (position_.mask == nullptr || HasMaskedMoves(access.type))) {
    StoreVector(access, raw, target(address, inside));
    return;
  }
  llvm::Type* element = ElementType(b_.getContext(), access.type);
  const auto lane_target = [&](llvm::Value* lane, llvm::Value* index, llvm::Value* is_inside) {
    llvm::Value* step = LaneStep(access, lane);
    if (index != nullptr) {
      step = b_.CreateAdd(
          step, b_.CreateMul(index, b_.getInt64(static_cast<uint64_t>(access.indirect_stride))));
    }
    return target(b_.CreateGEP(element, address, step), is_inside);
  };
  if (position_.mask == nullptr) {
    llvm::Value* clamped = scattered ? ClampIndirect(access, indirect) : nullptr;
    for (int i = 0; i < position_.lanes; ++i) {
      const auto lane = static_cast<uint64_t>(i);
      llvm::Value* index = scattered ? b_.CreateExtractElement(clamped, lane) : nullptr;
      llvm::Value* is_inside = scattered ? b_.CreateExtractElement(inside, lane) : inside;
      b_.CreateAlignedStore(b_.CreateExtractElement(raw, lane),
                            lane_target(b_.getInt64(lane), index, is_inside), AlignOf(access.type));
    }
    return;
  }
  const auto slot_of = [&](llvm::Value* vector, int element_bytes) {
    llvm::Value* slot = frame_.StackSlot(static_cast<uint64_t>(position_.lanes * element_bytes));
    b_.CreateAlignedStore(vector, slot, llvm::Align(static_cast<uint64_t>(element_bytes)));
    return slot;
  };
  llvm::Value* values = slot_of(raw, MemoryTypeSize(access.type));
  llvm::Value* given =
      scattered ? slot_of(b_.CreateSExt(indirect, WithLanes(b_.getInt64Ty(), position_.lanes)), 8)
                : nullptr;
  ForEachLane(ValidLanes(), [&](llvm::Value* lane) {
    llvm::Value* index = nullptr;
    llvm::Value* is_inside = inside;
    if (scattered) {
      index = b_.CreateLoad(b_.getInt64Ty(), b_.CreateGEP(b_.getInt64Ty(), given, lane));
      is_inside = IsInside(access, index);
      index = ClampIndirect(access, index);
    }
    llvm::Value* one =
        b_.CreateAlignedLoad(element, b_.CreateGEP(element, values, lane), AlignOf(access.type));
    b_.CreateAlignedStore(one, lane_target(lane, index, is_inside), AlignOf(access.type));
  });
}

}  // namespace hpu::graph_compiler
