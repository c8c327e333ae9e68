#include "compiler_server/ir/evaluate.h"

#include <cmath>

#include "base/error_function.h"
#include "base/philox.h"

namespace hpu::ir {
namespace evaluate {
namespace {

using ElementFunction = double (*)(const double* v, const double* a);

int64_t Int(double value) { return static_cast<int64_t>(value); }

// The sign follows Python, and infinities follow PyTorch: 88 / -inf gives -1, although floor(88 /
// -inf) is -0.
double FloorMod(double x, double y) {
  const double rest = std::fmod(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

double FloorDiv(double x, double y) {
  if (y == 0) return x / y;
  const double rest = std::fmod(x, y);
  double quotient = (x - rest) / y;
  if (rest != 0 && (rest < 0) != (y < 0)) quotient -= 1;
  return quotient == 0 ? std::copysign(0.0, x / y) : std::round(quotient);
}

// Shifts of integers. A count outside of [0, 64) leaves 0 to the left, and the sign to the right.
double ShiftLeft(double x, double count) {
  if (count < 0 || count >= 64) return 0;
  return static_cast<double>(static_cast<int64_t>(static_cast<uint64_t>(Int(x)) << Int(count)));
}
double ShiftRight(double x, double count) {
  const int64_t places = count >= 0 && count < 64 ? Int(count) : 63;
  return static_cast<double>(Int(x) >> places);
}

#include "compiler_server/ir/element_functions.inc"

static_assert(std::size(kElementFunctions) == kNumOps);

// Returns the memory that contains the tensor with the type's strides.
std::vector<double> MemoryOf(const HostTensor& tensor, const TensorType& type) {
  std::vector<double> memory(static_cast<size_t>(SpanElements(type)));
  IndexWalk walk(tensor.sizes);
  for (double value : tensor.data) {
    memory[walk.Offset(type.strides)] = value;
    walk.Next();
  }
  return memory;
}

void Permute(const Node& node, const HostTensor& x, HostTensor& out) {
  const Dims own = RowMajorStrides(x.sizes);
  Dims strides;
  for (int64_t dim : node.Ints(AttrKey::kPerm)) strides.push_back(own[dim]);
  IndexWalk walk(out.sizes);
  for (double& value : out.data) {
    value = x.data[walk.Offset(strides)];
    walk.Next();
  }
}

void Slice(const Node& node, const HostTensor& x, HostTensor& out) {
  const Dims own = RowMajorStrides(x.sizes);
  Dims strides = own;
  int64_t offset = 0;
  for (size_t i = 0; i < own.size(); ++i) {
    offset += node.Ints(AttrKey::kStarts)[i] * own[i];
    strides[i] *= node.Ints(AttrKey::kSteps)[i];
  }
  IndexWalk walk(out.sizes);
  for (double& value : out.data) {
    value = x.data[offset + walk.Offset(strides)];
    walk.Next();
  }
}

// Copies x into out with its first element at `start`.
void Place(const HostTensor& x, const Dims& start, HostTensor& out) {
  const Dims strides = RowMajorStrides(out.sizes);
  int64_t offset = 0;
  for (size_t i = 0; i < start.size(); ++i) offset += start[i] * strides[i];
  IndexWalk walk(x.sizes);
  for (double value : x.data) {
    out.data[offset + walk.Offset(strides)] = value;
    walk.Next();
  }
}

void Concat(const Node& node, Operands in, HostTensor& out) {
  const int64_t dim = node.Int(AttrKey::kDim);
  Dims start(out.sizes.size(), 0);
  for (const HostTensor* part : in) {
    Place(*part, start, out);
    start[dim] += part->sizes[dim];
  }
}

void AsStrided(const Node& node, const HostTensor& x, HostTensor& out) {
  const std::vector<double> memory = MemoryOf(x, node.operands[0]->type);
  IndexWalk walk(out.sizes);
  for (double& value : out.data) {
    value = memory[node.Int(AttrKey::kOffset) + walk.Offset(node.Ints(AttrKey::kStrides))];
    walk.Next();
  }
}

void AsStridedScatter(const Node& node, Operands in, HostTensor& out) {
  const TensorType& type = node.operands[0]->type;
  std::vector<double> memory = MemoryOf(*in[0], type);
  IndexWalk source(in[1]->sizes);
  for (double value : in[1]->data) {
    memory[node.Int(AttrKey::kOffset) + source.Offset(node.Ints(AttrKey::kStrides))] = value;
    source.Next();
  }
  IndexWalk walk(out.sizes);
  for (double& value : out.data) {
    value = memory[walk.Offset(type.strides)];
    walk.Next();
  }
}

void Source(const Node& node, HostTensor& out) {
  if (node.op == OpKind::kFull) {
    const double value = RoundTo(out.dtype, node.Float(AttrKey::kValue));
    out.data.assign(out.data.size(), value);
    return;
  }
  double index = 0;
  for (double& value : out.data) {
    value = RoundTo(out.dtype, node.Float(AttrKey::kStart) + index * node.Float(AttrKey::kStep));
    ++index;
  }
}

}  // namespace

void Random(const Node& node, Operands in, HostTensor& out) {
  const auto seed = static_cast<uint64_t>(in[0]->data[0]);
  const auto first =
      static_cast<uint64_t>(in[1]->data[0]) + static_cast<uint64_t>(node.Int(AttrKey::kBase));
  for (size_t i = 0; i < out.data.size(); ++i) {
    out.data[i] = UniformFromBits(PhiloxBlockOf(seed, first + i / 4)[i % 4]);
  }
}

void Elementwise(const Node& node, Operands in, HostTensor& out) {
  const ElementFunction function = kElementFunctions[static_cast<size_t>(node.op)];
  std::vector<double> attrs;
  for (const AttrSpec& spec : Traits(node.op).attrs) attrs.push_back(node.Float(spec.key));
  std::vector<Dims> strides;
  for (const HostTensor* operand : in) {
    strides.push_back(BroadcastStrides(operand->sizes, RowMajorStrides(operand->sizes), out.sizes));
  }
  std::vector<double> values(in.size());
  IndexWalk walk(out.sizes);
  for (double& result : out.data) {
    for (size_t i = 0; i < in.size(); ++i) values[i] = in[i]->data[walk.Offset(strides[i])];
    const double value = node.op == OpKind::kMul ? Multiply(out.dtype, values[0], values[1])
                                                 : function(values.data(), attrs.data());
    result = RoundTo(out.dtype, value);
    walk.Next();
  }
}

void Movement(const Node& node, Operands in, HostTensor& out) {
  switch (node.op) {
    case OpKind::kReshape:
      out.data = in[0]->data;
      return;
    case OpKind::kPermute:
      return Permute(node, *in[0], out);
    case OpKind::kExpand: {
      const Dims strides = BroadcastStrides(in[0]->sizes, RowMajorStrides(in[0]->sizes), out.sizes);
      IndexWalk walk(out.sizes);
      for (double& value : out.data) {
        value = in[0]->data[walk.Offset(strides)];
        walk.Next();
      }
      return;
    }
    case OpKind::kSlice:
      return Slice(node, *in[0], out);
    case OpKind::kConcat:
      return Concat(node, in, out);
    case OpKind::kPad:
      out = MakeHostTensor(out.dtype, out.sizes, node.Float(AttrKey::kValue));
      return Place(*in[0], node.Ints(AttrKey::kLow), out);
    case OpKind::kAsStrided:
      return AsStrided(node, *in[0], out);
    case OpKind::kAsStridedScatter:
      return AsStridedScatter(node, in, out);
    default:
      HPU_CHECK(false, "movement op without evaluation");
  }
}

}  // namespace evaluate

absl::StatusOr<std::vector<HostTensor>> EvaluateNode(const Node& node,
                                                     std::span<const HostTensor* const> operands) {
  std::vector<HostTensor> out;
  for (const Value* result : node.results) {
    if (!HasHostArithmetic(result->type.dtype)) {
      return Unimplemented("no host arithmetic for ", ToText(result->type));
    }
    out.push_back(MakeHostTensor(result->type.dtype, result->type.sizes));
  }
  switch (Traits(node.op).op_class) {
    case OpClass::kOpaque:
      return Unimplemented("cannot evaluate ", node.aten->target);
    case OpClass::kCustom:
      return Unimplemented("cannot evaluate custom kernel ", node.Text(AttrKey::kGuid));
    case OpClass::kElementwise:
      evaluate::Elementwise(node, operands, out[0]);
      break;
    case OpClass::kMovement:
      evaluate::Movement(node, operands, out[0]);
      break;
    case OpClass::kReduce:
      evaluate::Reduce(node, operands, out[0]);
      break;
    case OpClass::kScan:
      evaluate::Scan(node, operands, out);
      break;
    case OpClass::kNormalize:
      evaluate::Normalize(node, operands, out[0]);
      break;
    case OpClass::kContract:
      evaluate::Contract(node, operands, out);
      break;
    case OpClass::kWindow:
      evaluate::Window(node, operands, out[0]);
      break;
    case OpClass::kSource:
      evaluate::Source(node, out[0]);
      break;
    case OpClass::kRandom:
      evaluate::Random(node, operands, out[0]);
      break;
    case OpClass::kIndex:
      RETURN_IF_ERROR(evaluate::Index(node, operands, out));
      break;
  }
  return out;
}

}  // namespace hpu::ir
