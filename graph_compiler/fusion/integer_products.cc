#include "graph_compiler/fusion/integer_products.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "graph_compiler/fusion/read_constants.h"
#include "graph_compiler/ir/access_algebra.h"

namespace hpu::graph_compiler {
namespace {

// A sum of this many products of 9-bit differences fits in i32.
constexpr int64_t kLongestSum = 33000;
constexpr int64_t kLargestZero = 255;  // the largest u8
constexpr size_t kLargestWalk = 64;    // ops between the integers and the product

bool IsByte(MemoryType type) { return type == MemoryType::kU8 || type == MemoryType::kI8; }

// A number, or loads of one number per index of some dimensions.
struct Factor {
  double number = 0;
  const Access* access = nullptr;
};

// A value (q - zero) * scale over the shape of an operand.
struct Dequantised {
  Body body;  // the accesses belong to this body
  const Access* q = nullptr;
  Factor zero, scale;
};

// Collects the ops that produce the elements of `view`, seen through the maps that make them, back
// to integers.
class Walk {
 public:
  Walk(FusionState& state, uint32_t product, const View& view) : state_(state), product_(product) {
    node_.kind = Loop{};
    node_.domain = view.shape;
    BodyOp load{Opcode::kLoad, ScalarType::kF32, {}, 0, 0, {}};
    load.access.operand = view.value;
    load.access.type = view.type;
    load.access.strides = view.strides;
    load.access.offset = view.offset;
    node_.body.stores.push_back({0, load.access});
    node_.body.ops.push_back(std::move(load));
  }

  // Returns the whole body, or nothing if the operand is not made that way.
  std::optional<Body> Run(const Shape& shape) {
    while (InlineOne()) {
      if (node_.body.ops.size() > kLargestWalk) return std::nullopt;
    }
    SimplifyBody(node_.body);
    for (BodyOp& op : node_.body.ops) {
      if (op.op == Opcode::kLoad && !JoinDims(shape, op.access)) return std::nullopt;
    }
    return node_.body;
  }

 private:
  // Seeing through maps may have split dimensions of `shape`; this makes the access one over
  // `shape` again.
  bool JoinDims(const Shape& shape, Access& access) const {
    std::vector<int64_t> strides;
    size_t part = 0;
    for (const int64_t size : shape) {
      int64_t joined = 1, stride = 0;
      for (; part < node_.domain.size() && (joined < size || node_.domain[part] == 1); ++part) {
        if (node_.domain[part] == 1) continue;
        // The earlier parts must step by exactly the extent of this part.
        const int64_t extent = access.strides[part] * node_.domain[part];
        if (joined > 1 && stride != extent) return false;
        stride = access.strides[part];
        joined *= node_.domain[part];
      }
      if (joined != size) return false;
      strides.push_back(stride);
    }
    access.strides = std::move(strides);
    return part == node_.domain.size();
  }

  bool InlineOne() {
    for (uint32_t i = 0; i < node_.body.ops.size(); ++i) {
      const BodyOp& op = node_.body.ops[i];
      if (op.op != Opcode::kLoad || IsByte(op.access.type) || !op.access.operand.IsBuffer()) {
        continue;
      }
      if (op.access.indirect_value == kNoValue && Inline(i, op.access)) return true;
    }
    return false;
  }

  bool Inline(uint32_t load, const Access& access) {
    const ValueId value = access.operand.number;
    if (!state_.IsTemporary(value) || state_.writers(value).size() != 1) return false;
    const uint32_t writer = state_.writers(value)[0];
    const Node& producer = state_.node(writer);
    if (!producer.IsMap() || producer.body.stores.size() != 1 || producer.overwrites ||
        UsesIota(producer.body) || !state_.MayReadLater(writer, product_)) {
      return false;
    }
    const Store& store = producer.body.stores[0];
    const bool exact = store.access.type == access.type &&
                       (access.type == MemoryType::kF32 || access.type == MemoryType::kI64);
    IndexMap map;
    if (!exact || store.access.indirect_value != kNoValue ||
        !ComposeAccess(node_, access, producer.domain, store.access, &map)) {
      return false;
    }
    InlineLoad(node_.body, load, producer.body, store.value, store.access.type, map);
    return true;
  }

  FusionState& state_;
  const uint32_t product_;
  Node node_;
};

// Looks through a widening of integers, which changes no number.
const BodyOp* WithoutCast(const Body& body, const BodyOp* op) {
  if (op->op != Opcode::kCast || op->type != ScalarType::kF32) return op;
  const BodyOp* from = &body.ops[op->args[0]];
  return from->type == ScalarType::kF32 ? op : from;
}

bool ReadFactor(const Body& body, uint32_t value, Factor* factor) {
  const BodyOp& op = *WithoutCast(body, &body.ops[value]);
  if (op.op == Opcode::kConstF32) {
    factor->number = op.imm_f32;
    return true;
  }
  if (op.op != Opcode::kLoad || op.access.indirect_value != kNoValue) return false;
  factor->access = &op.access;
  return true;
}

// Reads the constant of the recipe if it is the same number everywhere.
void ReadConstant(const LoopGraph& graph, const Shape& shape, Factor* factor) {
  if (factor->access == nullptr) return;
  const std::optional<float> number = KnownNumber(graph, shape, *factor->access);
  if (number.has_value()) *factor = {*number, nullptr};
}

// Matches f32(q) and returns the access of q.
const Access* ReadBytes(const Body& body, uint32_t value) {
  const BodyOp& cast = body.ops[value];
  if (cast.op != Opcode::kCast || cast.type != ScalarType::kF32) return nullptr;
  const BodyOp& load = body.ops[cast.args[0]];
  const bool is_byte = load.op == Opcode::kLoad && IsByte(load.access.type) &&
                       load.access.indirect_value == kNoValue;
  return is_byte ? &load.access : nullptr;
}

// Matches q - zero, or q alone if the zero is 0.
bool ReadDifference(Dequantised* result, uint32_t value) {
  const BodyOp& op = result->body.ops[value];
  result->q = ReadBytes(result->body, value);
  if (result->q != nullptr) return true;
  if (op.op != Opcode::kSub && op.op != Opcode::kAdd) return false;
  result->q = ReadBytes(result->body, op.args[0]);
  if (result->q == nullptr || !ReadFactor(result->body, op.args[1], &result->zero)) return false;
  if (op.op == Opcode::kSub) return true;
  result->zero.number = -result->zero.number;
  return result->zero.access == nullptr;
}

bool ReadDequantised(FusionState& state, uint32_t product, const View& view, Dequantised* result) {
  if (view.type != MemoryType::kF32) return false;
  std::optional<Body> body = Walk(state, product, view).Run(view.shape);
  if (!body.has_value()) return false;
  result->body = *std::move(body);
  const BodyOp& op = result->body.ops[result->body.stores[0].value];
  if (op.op != Opcode::kMul) return false;
  for (const int scale : {1, 0}) {
    *result = Dequantised{std::move(result->body), nullptr, {}, {}};
    const BodyOp& product_op = result->body.ops[result->body.stores[0].value];
    if (ReadDifference(result, product_op.args[1 - scale]) &&
        ReadFactor(result->body, product_op.args[scale], &result->scale)) {
      ReadConstant(state.graph(), view.shape, &result->zero);
      return true;
    }
  }
  return false;
}

// Returns the stride along dimension `dim` of an access that depends on no other dimension.
std::optional<int64_t> StrideAlong(const Access& access, const Shape& shape, size_t dim) {
  for (size_t d = 0; d < shape.size(); ++d) {
    if (d != dim && shape[d] > 1 && access.strides[d] != 0) return std::nullopt;
  }
  return dim < shape.size() && shape[dim] > 1 ? access.strides[dim] : 0;
}

View WindowOf(const Access& q, const Shape& shape) {
  return {q.operand.number, q.type, shape, q.strides, q.offset};
}

// The operands of a product that was recognised.
struct Operands {
  View* a;
  View* b;
  ProductZeros* zeros;
  size_t columns_of_b;  // the dimension of b that is the last one of the product
};

class IntegerProduct {
 public:
  IntegerProduct(FusionState& state, uint32_t index)
      : state_(state), index_(index), node_(state.node(index)) {}

  // Changes nothing if the product is not one of integers.
  void Rewrite() {
    std::optional<Operands> operands = Find();
    if (!operands.has_value()) return;
    Dequantised a, b;
    if (!ReadDequantised(state_, index_, *operands->a, &a) || !AcceptsA(a)) return;
    if (!ReadDequantised(state_, index_, *operands->b, &b) || !AcceptsB(b)) return;
    ProductZeros zeros;
    zeros.a = std::lround(a.zero.number);
    const Shape& b_shape = operands->b->shape;
    const size_t columns = operands->columns_of_b;
    if (b.zero.access != nullptr) {
      const auto stride = StrideAlong(*b.zero.access, b_shape, columns);
      const bool dense = stride.has_value() && (*stride == 1 || b_shape[columns] == 1);
      if (!dense || b.zero.access->type != MemoryType::kI64) return;
      zeros.b = View{b.zero.access->operand.number,
                     MemoryType::kI64,
                     {b_shape[columns]},
                     {1},
                     b.zero.access->offset};
    }
    std::optional<Factor> a_scale = ScaleOf(a, operands->a->shape, operands->a->shape.size());
    std::optional<Factor> b_scale = ScaleOf(b, b_shape, columns);
    if (!a_scale.has_value() || !b_scale.has_value()) return;
    ScaleSum({*a_scale, *b_scale});
    *operands->a = WindowOf(*a.q, operands->a->shape);
    *operands->b = WindowOf(*b.q, b_shape);
    *operands->zeros = zeros;
    state_.Replace(index_, std::move(node_));
  }

 private:
  std::optional<Operands> Find() {
    if (auto* gemm = std::get_if<Gemm>(&node_.kind)) {
      if (gemm->a.shape.back() > kLongestSum) return std::nullopt;
      return Operands{&gemm->a, &gemm->b, &gemm->zeros, gemm->b.shape.size() - 1};
    }
    if (auto* conv = std::get_if<Conv>(&node_.kind)) {
      const Shape& w = conv->w.shape;
      if (conv->geometry.groups != 1 || w[1] * w[2] * w[3] > kLongestSum) return std::nullopt;
      return Operands{&conv->x, &conv->w, &conv->zeros, 0};
    }
    return std::nullopt;
  }

  static bool AcceptsA(const Dequantised& a) {
    const double zero = a.zero.number;
    return a.q->type == MemoryType::kU8 && a.zero.access == nullptr && zero == std::floor(zero) &&
           zero >= 0 && zero <= kLargestZero;
  }

  // Accepts a weight whose zero points are 0 or come from the quantizer.
  bool AcceptsB(const Dequantised& b) const {
    const auto given = [&](const Access& access) {
      const ValueId value = access.operand.number;
      return state_.graph().values[value].home == Home::kPersistent &&
             state_.writers(value).empty() && state_.overlaps(value).empty();
    };
    return b.q->type == MemoryType::kI8 && given(*b.q) &&
           (b.zero.access != nullptr ? given(*b.zero.access) : b.zero.number == 0);
  }

  // Returns a scale of the operand as a scale over the product's domain; `dim` is the dimension of
  // the operand that is the product's last one.
  std::optional<Factor> ScaleOf(const Dequantised& operand, const Shape& shape, size_t dim) {
    Factor factor{operand.scale.number, nullptr};
    if (operand.scale.access == nullptr) return factor;
    const auto stride = StrideAlong(*operand.scale.access, shape, dim);
    if (!stride.has_value() || operand.scale.access->type != MemoryType::kF32) return std::nullopt;
    Access access = *operand.scale.access;
    access.strides.assign(node_.domain.size(), 0);
    access.strides.back() = *stride;
    scales_.push_back(std::make_unique<Access>(std::move(access)));
    factor.access = scales_.back().get();
    return factor;
  }

  // The sum in the body becomes i32, and f32(sum) * (product of the scales) takes its place.
  void ScaleSum(const std::vector<Factor>& scales) {
    std::vector<BodyOp> ops;
    const auto add = [&](BodyOp op) {
      ops.push_back(std::move(op));
      return static_cast<uint32_t>(ops.size() - 1);
    };
    const uint32_t sum = add({Opcode::kAccumulator, ScalarType::kI32, {}, 0, 0, {}});
    uint32_t scaled = add({Opcode::kCast, ScalarType::kF32, {sum}, 0, 0, {}});
    uint32_t scale = kNoValue;
    for (const Factor& factor : scales) {
      const uint32_t one =
          factor.access != nullptr
              ? add({Opcode::kLoad, ScalarType::kF32, {}, 0, 0, *factor.access})
              : add({Opcode::kConstF32, ScalarType::kF32, {}, factor.number, 0, {}});
      scale =
          scale == kNoValue ? one : add({Opcode::kMul, ScalarType::kF32, {scale, one}, 0, 0, {}});
    }
    scaled = add({Opcode::kMul, ScalarType::kF32, {scaled, scale}, 0, 0, {}});
    std::vector<uint32_t> places;
    for (BodyOp op : node_.body.ops) {
      for (uint32_t& arg : op.args) arg = places[arg];
      if (op.op == Opcode::kLoad && op.access.indirect_value != kNoValue) {
        op.access.indirect_value = places[op.access.indirect_value];
      }
      places.push_back(op.op == Opcode::kAccumulator ? scaled : add(std::move(op)));
    }
    for (Store& store : node_.body.stores) {
      store.value = places[store.value];
      if (store.access.indirect_value != kNoValue) {
        store.access.indirect_value = places[store.access.indirect_value];
      }
    }
    node_.body.ops = std::move(ops);
  }

  FusionState& state_;
  const uint32_t index_;
  Node node_;
  std::vector<std::unique_ptr<Access>> scales_;
};

}  // namespace

void UseIntegerProducts(FusionState& state) {
  for (uint32_t i = 0; i < state.num_nodes(); ++i) {
    if (state.alive(i) && state.node(i).IsProduct()) IntegerProduct(state, i).Rewrite();
  }
}

}  // namespace hpu::graph_compiler
