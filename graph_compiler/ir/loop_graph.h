// The graph between import and code generation. Values are buffers; views are strided windows on
// them; nodes are loop nests over an iteration domain whose bodies load and store through affine
// accesses. Transposes, slices, broadcasts, reshapes, splits and concatenations exist only as
// accesses.
//
// Shapes are outermost first, the last dimension is PyTorch's last.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "base/strides.h"
#include "graph_compiler/ir/graph_desc.h"
#include "graph_compiler/ir/loop_ir.h"

namespace hpu::graph_compiler {

using ValueId = uint32_t;
using Shape = Dims;

// kKept: as kWorkspace, but it outlives the launch (plan/prologue.h).
enum class Home : uint8_t { kWorkspace, kPersistent, kConstant, kKept };

struct Value {
  std::string name;
  MemoryType type = MemoryType::kF32;
  Shape shape;
  Shape strides;  // dense, in elements; the order may differ from the shape's
  Home home = Home::kWorkspace;
  uint32_t tensor = kNoTensor;  // kPersistent: index in GraphDesc::tensors
  uint32_t section = kNoSection;
  uint64_t byte_offset = 0;  // in its section, the recipe's constants or what is kept
  uint64_t bytes = 0;
  // kPersistent, in a graph of inference: mostly holds the same from launch to launch.
  bool weight = false;
  // kPersistent: written in part, over what this value in the same memory holds before the launch.
  std::optional<ValueId> content = std::nullopt;
};

// A logical tensor: a window on a value.
struct View {
  ValueId value = 0;
  MemoryType type = MemoryType::kF32;  // differs from the value's after reinterpret_cast
  Shape shape;
  Shape strides;  // elements
  int64_t offset = 0;

  bool operator==(const View&) const = default;
};

enum class ReduceKind : uint8_t { kNone, kSum, kProd, kMax, kMin };

// What nodes do over their domains: one of these.

// `reduced` trailing dimensions are folded by `reduce` (each store stores the fold of its value;
// its strides there are 0), or `serial` trailing dimensions run in order within one task, each
// iteration seeing the stores of those before.
struct Loop {
  size_t reduced = 0;
  size_t serial = 0;
  ReduceKind reduce = ReduceKind::kNone;
};

// What stands for 0 in the operands of a product of u8 by i8, whose sum is an i32.
struct ProductZeros {
  int64_t a = 0;
  std::optional<View> b;  // (n), i64; none: 0
};

// Domain (batch..., m, n).
struct Gemm {
  View a;  // (batch..., m, k)
  View b;  // (batch..., k, n)
  ProductZeros zeros = {};
};

// A product with quantised weights (QuantizedGemmSpec). Domain (m, n).
struct QuantizedGemm {
  View x;        // (m, k)
  View weights;  // i8 (n, k), or u8 (n / (2 * half), k, half) dense within a block
  // (k / group, n); no zero without a scale.
  std::optional<View> scale, zero;
};

struct ConvGeometry {
  int64_t stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1, pad_top = 0, pad_left = 0;
  int64_t groups = 1;
  bool direct = false;  // sums of products of pixels and taps as they are (deterministic mode)
};

// Domain (n, h, w, channel).
struct Conv {
  View x;  // (n, h, w, c)
  View w;  // (ko, c/g, r, s)
  ConvGeometry geometry;
  ProductZeros zeros = {};
};

// The gradient of a convolution by its weight. Domain (r, s, c/g, ko).
struct WeightGradient {
  View x;                 // (n, h, w, c)
  View dy;                // (n, ho, wo, ko)
  ConvGeometry geometry;  // of the forward convolution
};

// State of the generator and where a draw begins, i64 of one element each.
struct Draw {
  View seed, offset, base;
};

// Domain (b, h, m, d). Its body is empty.
struct Attention {
  View q, k, v;              // (b, h, m or n, d)
  std::optional<View> mask;  // (b, h, m, n)
  View out;                  // (b, h, m, dv)
  // What the gradient takes (AttentionSpec): (b, h, m), f32, row-major. Both or none.
  std::optional<View> maximum, inverse_sum;
  float scale = 1;
  bool causal = false;
  // Weights that are kept, and divided by, with this probability; whether, a draw says.
  float keep = 1;
  std::optional<Draw> draw;
};

// Domain (b, h, m, d). Its body is empty.
struct AttentionBackward {
  Attention forward;  // whose `out` and statistics are read
  View out_gradient;
  View q_gradient, k_gradient, v_gradient;
};

// The first k elements of sorted rows. Domain (rows..., k). Its body is empty.
struct Sort {
  View in;  // (rows..., n)
  std::optional<View> values, indices;
  bool descending = false;
};

// A window that a node reads or writes besides the accesses of its body.
template <typename V>
struct BasicPort {
  const char* name;
  V* view;
  bool written;
};
using Port = BasicPort<View>;
using ConstPort = BasicPort<const View>;

struct Node {
  std::string name;
  Shape domain;  // what is iterated over
  std::variant<Loop, Gemm, Conv, WeightGradient, Attention, AttentionBackward, Sort, QuantizedGemm>
      kind;
  // Of loops all they do; of products and convolutions the epilogue, in which kAccumulator 0 is the
  // sum of products. Operands that are buffers are values of the graph.
  Body body;
  bool keep_apart = false;  // never fused with others (copies out of temporaries)
  bool overwrites = false;  // writes over what earlier nodes wrote to the same value
  uint32_t phase = 0;       // import/phases.h: nodes of a lower phase run before

  template <typename Kind>
  bool Is() const {
    return std::holds_alternative<Kind>(kind);
  }
  // The loop; of others: none.
  Loop* AsLoop() { return std::get_if<Loop>(&kind); }
  const Loop* AsLoop() const { return std::get_if<Loop>(&kind); }
  // Of a loop.
  Loop& loop() { return std::get<Loop>(kind); }
  const Loop& loop() const { return std::get<Loop>(kind); }
  // A loop whose iterations have nothing to do with each other.
  bool IsMap() const;
  // A sum of products with a body as its epilogue.
  bool IsProduct() const {
    return Is<Gemm>() || Is<QuantizedGemm>() || Is<Conv>() || Is<WeightGradient>();
  }

  std::vector<Port> Ports();
  std::vector<ConstPort> Ports() const;
  std::vector<ValueId> Reads() const;  // without duplicates, in order of appearance
  std::vector<ValueId> Writes() const;
  // The body loads element numbers. Only loop kernels can: an epilogue's loads are operands.
  bool UsesIota() const;
};

struct LoopGraph {
  std::vector<Value> values;
  std::vector<Node> nodes;  // in an order that satisfies all dependencies
  Bytes constants;
};

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

}  // namespace hpu::graph_compiler
