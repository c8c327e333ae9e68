#include "compiler_server/passes/quantized_weights.h"

#include <algorithm>
#include <utility>

#include "compiler_server/ir/rewrite.h"
#include "compiler_server/passes/decompose/quantized_weights.h"

namespace hpu::compiler {
namespace {

using ir::AttrKey;
using ir::Builder;
using ir::Dims;
using ir::Node;
using ir::OpKind;
using ir::Value;

// One operation on the weights, from the product down to their 8 bits: value = below op factor.
struct Step {
  OpKind op;  // kMul, kAdd, kSub
  Value* factor = nullptr;
  int rank = 2;               // the rank of the weights there: 3 if they are split into groups
  bool columns_first = true;  // for the weights there, if their rank is 2
};

struct Pattern {
  Value* weights = nullptr;  // i8 [N, K]
  int64_t groups = 1;
  std::vector<Step> steps;
};

class Matcher {
 public:
  explicit Matcher(const Node& product) : product_(product) {}

  bool Match(Pattern* pattern) {
    if (product_.op != OpKind::kMatmul || product_.Bool(AttrKey::kTransposeA)) return false;
    const ir::TensorType& x = product_.operands[0]->type;
    if (x.rank() != 2 || product_.operands[1]->type.rank() != 2) return false;
    if (x.sizes[0] < 1 || x.sizes[0] > kMostQuantizedRows || x.sizes[1] < 1) return false;
    inner_ = x.sizes[1];
    columns_ = product_.type().sizes[1];
    columns_first_ = product_.Bool(AttrKey::kTransposeB);
    return Walk(product_.operands[1], pattern);
  }

 private:
  bool Walk(Value* value, Pattern* pattern) {
    if (value->type.dtype == DType::kI8 && value->type.rank() == 2 && columns_first_ &&
        value->type.sizes == Dims{columns_, inner_}) {
      pattern->weights = value;
      return true;
    }
    const Node* node = value->producer;
    if (node == nullptr) return false;
    switch (node->op) {
      case OpKind::kCast:
        return IsWidening(*node) && Walk(node->operands[0], pattern);
      case OpKind::kPermute:
        if (node->type().rank() != 2 || node->Ints(AttrKey::kPerm) != Dims{1, 0}) return false;
        columns_first_ = !columns_first_;
        return Walk(node->operands[0], pattern);
      case OpKind::kReshape:
        return WalkReshape(*node, pattern);
      case OpKind::kMul:
        return WalkStep(*node, 0, pattern) || WalkStep(*node, 1, pattern);
      case OpKind::kAdd:
        return WalkStep(*node, 0, pattern) || WalkStep(*node, 1, pattern);
      case OpKind::kSub:
        return WalkStep(*node, 0, pattern);
      default:
        return false;
    }
  }

  // Whether the cast keeps everything but rounding of the 8 bits and of what was made from them.
  static bool IsWidening(const Node& cast) {
    const DType from = cast.operands[0]->type.dtype, to = cast.type().dtype;
    if (IsFloat(to)) return IsFloat(from) ? DTypeSize(from) >= 2 : from != DType::kBool;
    return !IsFloat(from) && from != DType::kBool && to != DType::kBool && to != DType::kU8 &&
           DTypeSize(to) >= DTypeSize(from);
  }

  // Accepts reshapes between [N, K] and [N, K / group, group].
  bool WalkReshape(const Node& reshape, Pattern* pattern) {
    const Dims& from = reshape.operands[0]->type.sizes;
    const Dims& to = reshape.type().sizes;
    if (!columns_first_) return false;
    const Dims whole = {columns_, inner_};
    const Dims& split = from == whole ? to : from;
    if ((from != whole && to != whole) || split.size() != 3 || split[0] != columns_) return false;
    if (pattern->groups != 1 && pattern->groups != split[1]) return false;
    pattern->groups = split[1];
    return Walk(reshape.operands[0], pattern);
  }

  bool WalkStep(const Node& node, size_t main, Pattern* pattern) {
    Value* factor = node.operands[1 - main];
    if (node.operands[main]->type.sizes != node.type().sizes || !IsFactor(*factor, node.type())) {
      return false;
    }
    const Pattern before = *pattern;
    const bool columns_first = columns_first_;
    pattern->steps.push_back({node.op, factor, node.type().rank(), columns_first_});
    if (Walk(node.operands[main], pattern)) return true;
    *pattern = before;
    columns_first_ = columns_first;
    return false;
  }

  // Whether the factor is the same for every k of a group.
  bool IsFactor(const Value& factor, const ir::TensorType& whole) const {
    const int missing = whole.rank() - factor.type.rank();
    const int inner_dim = whole.rank() == 3 ? 2 : columns_first_ ? 1 : 0;
    return inner_dim < missing || factor.type.sizes[inner_dim - missing] == 1;
  }

  const Node& product_;
  int64_t inner_ = 0;
  int64_t columns_ = 0;
  bool columns_first_ = true;
};

// Returns the factor as [groups, N]. It is in f32 unless it is the only one: otherwise products and
// differences of factors would be rounded, and the rounding error of a zero point is multiplied by
// the sum of x.
Value* AsFactor(Builder& b, const Pattern& pattern, const Step& step) {
  const int64_t columns = pattern.weights->type.sizes[0];
  Value* factor = step.factor;
  if (pattern.steps.size() > 1 || !IsFloat(factor->type.dtype)) {
    factor = b.Cast(factor, DType::kF32);
  }
  Dims sizes = factor->type.sizes;
  sizes.insert(sizes.begin(), step.rank - sizes.size(), 1);
  if (step.rank == 3) {
    sizes.pop_back();
  } else if (!step.columns_first) {
    std::swap(sizes[0], sizes[1]);
  }
  factor = b.Reshape(factor, sizes);  // now [N or 1, groups or 1]
  return b.Expand(b.Permute(factor, {1, 0}), {pattern.groups, columns});
}

// The weights are weights * scale + zero; the steps are applied from the innermost one out.
struct Factors {
  Value* scale = nullptr;
  Value* zero = nullptr;
};

Factors EmitFactors(Builder& b, const Pattern& pattern) {
  Factors result;
  const int64_t columns = pattern.weights->type.sizes[0];
  const auto join = [&](OpKind op, Value* x, Value* y) {
    return x == nullptr ? y : b.Binary(op, x, y);
  };
  for (size_t i = pattern.steps.size(); i-- > 0;) {
    const Step& step = pattern.steps[i];
    Value* factor = AsFactor(b, pattern, step);
    if (step.op == OpKind::kMul) {
      if (result.zero != nullptr) result.zero = join(OpKind::kMul, result.zero, factor);
      result.scale = join(OpKind::kMul, result.scale, factor);
      continue;
    }
    if (step.op == OpKind::kSub) factor = b.Unary(OpKind::kNeg, factor);
    result.zero = join(OpKind::kAdd, result.zero, factor);
  }
  if (result.zero != nullptr && result.scale == nullptr) {
    result.scale = b.Full(1, result.zero->type.dtype, {pattern.groups, columns});
  }
  return result;
}

}  // namespace

absl::Status RecogniseQuantizedWeights(ir::Graph& graph, const PassContext& context) {
  ir::Rewriter rewriter(graph);
  return rewriter.Run([&](Node& node) -> absl::StatusOr<ir::Visit> {
    Pattern pattern;
    if (!Matcher(node).Match(&pattern)) return ir::Visit::kKeep;
    Builder& b = rewriter.builder();
    const size_t mark = b.Mark();
    std::vector<Value*> operands = {node.operands[0], pattern.weights};
    const Factors factors = EmitFactors(b, pattern);
    if (factors.scale != nullptr) operands.push_back(factors.scale);
    if (factors.zero != nullptr) operands.push_back(factors.zero);
    const Node* product = b.EmitNode(OpKind::kMatmulQuantized, std::move(operands));
    if (!b.status().ok() || !context.accept(*product).ok()) {
      b.Rewind(mark);
      return ir::Visit::kKeep;
    }
    rewriter.Replace(node.result(), product->result());
    return ir::Visit::kDrop;
  });
}

}  // namespace hpu::compiler
