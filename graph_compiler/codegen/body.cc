#include "graph_compiler/codegen/body.h"

#include "graph_compiler/codegen/arithmetic.h"
#include "graph_compiler/codegen/convert.h"
#include "graph_compiler/codegen/math.h"
#include "graph_compiler/codegen/memory_access.h"
#include "graph_compiler/codegen/philox.h"

namespace hpu::graph_compiler {
namespace {

class BodyEmitter {
 public:
  BodyEmitter(llvm::IRBuilder<>& builder, const KernelFrame& frame, const TargetInfo& target,
              const Body& body, const BodyPosition& position,
              const std::vector<llvm::Value*>& accumulators)
      : b_(builder),
        target_(target),
        body_(body),
        position_(position),
        accumulators_(accumulators),
        memory_(builder, frame, target, position),
        values_(body.ops.size(), nullptr) {
    std::vector<bool> accumulator_varies;
    for (const llvm::Value* value : accumulators) {
      accumulator_varies.push_back(value == nullptr || value->getType()->isVectorTy());
    }
    varies_ = VariesAlongLanes(body, position.index.size(), accumulator_varies);
  }

  void Preset(const std::vector<llvm::Value*>& known) { values_ = known; }

  void EmitOps(bool invariant_only) {
    for (size_t i = 0; i < body_.ops.size(); ++i) {
      if (!(invariant_only && varies_[i])) Emit(i);
    }
  }

  void Emit(size_t i) {
    if (values_[i] == nullptr) values_[i] = EmitOp(i);
  }

  void EmitStores() {
    for (const Store& store : body_.stores) {
      memory_.Store(store.access, values_[store.value], body_.ops[store.value].type,
                    Indirect(store.access));
    }
  }

  std::vector<llvm::Value*> TakeValues() { return std::move(values_); }

  std::vector<llvm::Value*> TakeSplatted() {
    for (llvm::Value*& value : values_) value = Splat(value);
    return std::move(values_);
  }

 private:
  llvm::Value* Splat(llvm::Value* value) {
    if (position_.lanes == 1 || value == nullptr || value->getType()->isVectorTy()) return value;
    return b_.CreateVectorSplat(static_cast<unsigned>(position_.lanes), value);
  }

  llvm::Value* Indirect(const Access& access) {
    return access.indirect_value == kNoValue ? nullptr : values_[access.indirect_value];
  }

  llvm::Value* EmitOp(size_t i) {
    const BodyOp& op = body_.ops[i];
    llvm::Type* element = ElementType(b_.getContext(), op.type);
    switch (op.op) {
      case Opcode::kConstF32:
        return llvm::ConstantFP::get(element, op.imm_f32);
      case Opcode::kConstInt:
        return llvm::ConstantInt::get(element, static_cast<uint64_t>(op.imm_int), true);
      case Opcode::kAccumulator:
        return accumulators_[static_cast<size_t>(op.imm_int)];
      case Opcode::kIndex:
        return EmitIndex(op, varies_[i]);
      case Opcode::kLoad:
        return varies_[i] ? memory_.LoadLanes(op.access, Indirect(op.access))
                          : memory_.LoadScalar(op.access, Indirect(op.access));
      case Opcode::kRoundTo: {
        llvm::Value* value = varies_[i] ? Splat(values_[op.args[0]]) : values_[op.args[0]];
        const auto type = static_cast<MemoryType>(op.imm_int);
        const BodyOp& rounded = body_.ops[op.args[0]];
        if (rounded.op == Opcode::kLoad && rounded.access.type == type) return value;
        return Widen(b_, target_, Narrow(b_, target_, value, op.type, type), type);
      }
      case Opcode::kPhiloxUniform: {
        // The generator's state is the same for all lanes unless a graph reads it per element, and
        // no graph does that.
        llvm::Value* index = varies_[i] ? Splat(values_[op.args[2]]) : values_[op.args[2]];
        return EmitPhiloxUniform(b_, values_[op.args[0]], values_[op.args[1]], index,
                                 op.imm_int != 0);
      }
      default:
        break;
    }
    std::vector<llvm::Value*> args;
    for (const uint32_t arg : op.args)
      args.push_back(varies_[i] ? Splat(values_[arg]) : values_[arg]);
    const ScalarType arg_type = body_.ops[op.args.back()].type;
    if (IsMathOpcode(op.op)) return EmitMath(b_, target_, op.op, args);
    return EmitArithmetic(b_, target_, op.op, op.type, arg_type, args);
  }

  llvm::Value* EmitIndex(const BodyOp& op, bool varies) {
    llvm::Value* index = position_.index[static_cast<size_t>(op.imm_int)];
    if (varies && position_.lanes > 1) {
      std::vector<llvm::Constant*> steps;
      for (int lane = 0; lane < position_.lanes; ++lane) {
        steps.push_back(b_.getInt64(static_cast<uint64_t>(lane)));
      }
      index = b_.CreateAdd(Splat(index), llvm::ConstantVector::get(steps));
    }
    return ConvertScalar(b_, index, ScalarType::kI64, op.type);
  }

  llvm::IRBuilder<>& b_;
  const TargetInfo& target_;
  const Body& body_;
  const BodyPosition& position_;
  const std::vector<llvm::Value*>& accumulators_;
  MemoryAccess memory_;
  std::vector<llvm::Value*> values_;  // vectors where the op varies along lanes, else scalars
  std::vector<bool> varies_;
};

}  // namespace

std::vector<bool> VariesAlongLanes(const Body& body, size_t num_dims,
                                   const std::vector<bool>& accumulator_varies) {
  std::vector<bool> varies(body.ops.size(), false);
  for (size_t i = 0; i < body.ops.size(); ++i) {
    const BodyOp& op = body.ops[i];
    bool result = false;
    for (const uint32_t arg : op.args) result = result || varies[arg];
    switch (op.op) {
      case Opcode::kLoad:
        result = result || (!op.access.strides.empty() && op.access.strides.back() != 0) ||
                 (op.access.indirect_value != kNoValue && varies[op.access.indirect_value]);
        break;
      case Opcode::kIndex:
        result = static_cast<size_t>(op.imm_int) + 1 == num_dims;
        break;
      case Opcode::kAccumulator:
        result = accumulator_varies[static_cast<size_t>(op.imm_int)];
        break;
      default:
        break;
    }
    varies[i] = result;
  }
  return varies;
}

std::vector<llvm::Value*> EmitBody(llvm::IRBuilder<>& builder, const KernelFrame& frame,
                                   const TargetInfo& target, const Body& body,
                                   const BodyPosition& position,
                                   const std::vector<llvm::Value*>& accumulators) {
  return EmitBodies(builder, frame, target, body, {position}, accumulators).front();
}

std::vector<std::vector<llvm::Value*>> EmitBodies(llvm::IRBuilder<>& builder,
                                                  const KernelFrame& frame,
                                                  const TargetInfo& target, const Body& body,
                                                  const std::vector<BodyPosition>& positions,
                                                  const std::vector<llvm::Value*>& accumulators,
                                                  const std::vector<llvm::Value*>* known) {
  std::vector<BodyEmitter> emitters;
  emitters.reserve(positions.size());
  for (const BodyPosition& position : positions) {
    emitters.emplace_back(builder, frame, target, body, position, accumulators);
    if (known != nullptr) emitters.back().Preset(*known);
  }
  for (size_t i = 0; i < body.ops.size(); ++i) {
    for (BodyEmitter& emitter : emitters) emitter.Emit(i);
  }
  std::vector<std::vector<llvm::Value*>> values;
  for (BodyEmitter& emitter : emitters) {
    emitter.EmitStores();
    values.push_back(emitter.TakeSplatted());
  }
  return values;
}

std::vector<llvm::Value*> EmitInvariants(llvm::IRBuilder<>& builder, const KernelFrame& frame,
                                         const TargetInfo& target, const Body& body,
                                         const BodyPosition& position,
                                         const std::vector<llvm::Value*>& accumulators) {
  BodyEmitter emitter(builder, frame, target, body, position, accumulators);
  emitter.EmitOps(/*invariant_only=*/true);
  return emitter.TakeValues();
}

}  // namespace hpu::graph_compiler
