// The graph between import and code generation. Values are buffers; views are strided windows on
// them; nodes are loop nests over an iteration domain whose bodies load and store through affine
// accesses. Transposes, slices, broadcasts, reshapes, splits and concatenations exist only as
// accesses.
//
// Shapes are outermost first, the last dimension is PyTorch's last.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "synapse/emulator/graph_compiler/graph_desc.h"
#include "synapse/emulator/graph_compiler/loop_ir.h"

namespace hpu::emulator {

using ValueId = uint32_t;
using Shape = std::vector<int64_t>;

// Operand number of loads whose value is the element number itself, sum of strides * index + offset
// (index arithmetic that can be viewed like any other load).
inline constexpr uint32_t kIotaOperand = 0xFFFFFFFE;

enum class Home : uint8_t { kWorkspace, kPersistent, kConstant };

struct Value {
  std::string name;
  MemoryType type = MemoryType::kF32;
  Shape shape;
  Shape strides;  // dense, in elements; the order may differ from the shape's
  Home home = Home::kWorkspace;
  uint32_t tensor = kNoTensor;  // kPersistent: index in GraphDesc::tensors
  uint32_t section = kNoSection;
  uint64_t byte_offset = 0;  // in its section or in the recipe's constants
  uint64_t bytes = 0;
};

// A logical tensor: a window on a value.
struct View {
  ValueId value = 0;
  MemoryType type = MemoryType::kF32;  // differs from the value's after reinterpret_cast
  Shape shape;
  Shape strides;  // elements
  int64_t offset = 0;
};

enum class NodeKind : uint8_t { kLoop, kGemm, kConv, kAttention, kSort };
enum class ReduceKind : uint8_t { kNone, kSum, kProd, kMax, kMin };

struct ConvGeometry {
  int64_t stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1, pad_top = 0, pad_left = 0;
  int64_t groups = 1;
  bool direct = false;  // sums of products of pixels and taps as they are (deterministic mode)
};

struct Node {
  NodeKind kind = NodeKind::kLoop;
  std::string name;
  // Iteration domain. kLoop: `reduced` trailing dimensions are folded by `reduce` (each store
  // stores the fold of its value; its strides there are 0), or `serial` trailing dimensions run in
  // order within one task, each iteration seeing the stores of those before.
  // kGemm: (batch..., m, n); kConv: (n, h, w, channel): the body is the epilogue and kAccumulator 0
  // the sum of products.
  Shape domain;
  size_t reduced = 0;
  size_t serial = 0;
  ReduceKind reduce = ReduceKind::kNone;
  Body body;                // Access::operand is a ValueId or kIotaOperand
  bool keep_apart = false;  // never fused with others (copies out of temporaries)
  bool overwrites = false;  // writes over what earlier nodes wrote to the same value
  uint32_t phase = 0;       // plan/phases.h: nodes of a lower phase run before

  // kGemm: a (batch..., m, k), b (batch..., k, n). kConv: a = x (n, h, w, c), b = w (ko, c/g, r,
  // s). kAttention: a, b, c = q, k, v (b, h, n, d), mask (b, h, m, n). kSort: a = input with the
  // sorted dimension last.
  View a, b, c, mask;
  bool has_mask = false;
  ConvGeometry conv;
  float scale = 1;
  bool causal = false;
  View out;                 // kAttention; kSort: the values, k along the last dimension
  View out_indices;         // kSort
  bool has_values = true;   // kSort
  bool has_indices = true;  // kSort
  bool descending = false;

  std::vector<ValueId> Reads() const;  // without duplicates, in order of appearance
  std::vector<ValueId> Writes() const;
  // The body loads element numbers (kIotaOperand). Only loop kernels can: an epilogue's loads are
  // operands.
  bool UsesIota() const;
};

struct LoopGraph {
  std::vector<Value> values;
  std::vector<Node> nodes;  // in an order that satisfies all dependencies
  Bytes constants;
};

int64_t NumElements(const Shape& shape);
Shape RowMajorStrides(const Shape& shape);
// Strides of a dense buffer of `shape` whose dimensions are nested in the order of `like`.
Shape StridesInOrderOf(const Shape& shape, const Shape& like);
bool IsDense(const Shape& shape, const Shape& strides);

View PermuteView(const View& view, const std::vector<size_t>& order);
// Dimensions of size 1 (or missing leading ones) grow to `shape`. The caller has checked shapes.
View BroadcastView(const View& view, const Shape& shape);
// Leading dimensions of size 1 up to `rank`.
View WithRank(const View& view, size_t rank);
View SliceView(const View& view, size_t dim, int64_t begin, int64_t size, int64_t step);
// False when no strides describe the reshaped window.
bool ReshapeView(const View& view, const Shape& shape, View* result);

// Text of nodes and values for dumps.
std::string ToText(const LoopGraph& graph);
std::string ToText(const Body& body);

}  // namespace hpu::emulator
