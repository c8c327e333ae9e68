// The graph between import and code generation. Values are buffers; views are strided windows on
// them; nodes are loop nests over an iteration domain whose bodies load and store through affine
// accesses. Transposes, slices, broadcasts, reshapes, splits and concatenations exist only as
// accesses.
//
// Shapes are outermost first: the last dimension is PyTorch's last.
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

// A kKept value is a kWorkspace value that outlives the launch (plan/prologue.h).
enum class Home : uint8_t { kWorkspace, kPersistent, kConstant, kKept };

struct Value {
  std::string name;
  MemoryType type = MemoryType::kF32;
  Shape shape;
  Shape strides;  // dense, in elements; the order may differ from the shape's
  Home home = Home::kWorkspace;
  uint32_t tensor = kNoTensor;  // kPersistent: index in GraphDesc::tensors
  uint32_t section = kNoSection;
  uint64_t byte_offset = 0;  // in its section, in the recipe's constants or in the kept memory
  uint64_t bytes = 0;
  // kPersistent, in an inference graph: mostly holds the same values in successive launches.
  bool weight = false;
  // kPersistent: set if the value is written only in part, over what the value named here holds in
  // the same memory before the launch.
  std::optional<ValueId> content = std::nullopt;
};

// A logical tensor: a window on a value.
struct View {
  ValueId value = 0;
  // This differs from the type of the value after a reinterpret_cast.
  MemoryType type = MemoryType::kF32;
  Shape shape;
  Shape strides;  // elements
  int64_t offset = 0;

  bool operator==(const View&) const = default;
};

enum class ReduceKind : uint8_t { kNone, kSum, kProd, kMax, kMin };

// A node does one of the following over its domain.

// The `reduced` trailing dimensions are folded by `reduce`: each store stores the fold of its
// value, and its strides there are 0. Or the `serial` trailing dimensions run in order within one
// task, and each iteration sees the stores of those before it.
struct Loop {
  size_t reduced = 0;
  size_t serial = 0;
  ReduceKind reduce = ReduceKind::kNone;
};

// The numbers that stand for 0 in the operands of a product of u8 by i8, whose sum is an i32.
struct ProductZeros {
  int64_t a = 0;
  std::optional<View> b;  // (n), i64; absent means 0
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
  // (k / group, n); there is no zero without a scale.
  std::optional<View> scale, zero;
};

// A product of groups (GroupedGemmSpec). Domain (m, n), or (groups, m, n) if `inner`.
struct GroupedGemm {
  View a;               // (m, k)
  View ends;            // (groups), i32, dense
  std::vector<View> b;  // (groups, k, n), or (k, n) for each group; (k, n) if `inner`
  bool inner = false;
};

struct ConvGeometry {
  int64_t stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1, pad_top = 0, pad_left = 0;
  int64_t groups = 1;
  bool direct = false;  // sums the products of pixels and taps unchanged (deterministic mode)
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

// The state of the generator and the position where a draw begins, each an i64 of one element.
struct Draw {
  View seed, offset, base;
};

// Domain (b, h, m, d). Its body is empty.
struct Attention {
  View q, k, v;              // (b, h, m or n, d)
  std::optional<View> mask;  // (b, h, m, n)
  View out;                  // (b, h, m, dv)
  // The statistics that the gradient takes (AttentionSpec): (b, h, m), f32, row-major. Both are
  // present or neither is.
  std::optional<View> maximum, inverse_sum;
  float scale = 1;
  bool causal = false;
  // Each weight is kept, and divided by this probability, if the draw says so; else it is dropped.
  float keep = 1;
  std::optional<Draw> draw;
};

// Domain (b, h, m, d). Its body is empty.
struct AttentionBackward {
  Attention forward;  // its `out` and statistics are read
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

// A call of the caller's own kernel (hpu_custom_kernel.h), of which the compiler knows operands
// alone. Its body is empty, and its domain is that of the first output.
struct CustomCall {
  struct Operand {
    View view;
    synDataType dtype = syn_type_na;
  };
  std::string guid;
  uint32_t version = 0;
  std::vector<uint8_t> params;
  std::vector<Operand> inputs, outputs;
};

struct Node {
  std::string name;
  Shape domain;  // the dimensions that are iterated over
  std::variant<Loop, Gemm, Conv, WeightGradient, Attention, AttentionBackward, Sort, QuantizedGemm,
               GroupedGemm, CustomCall>
      kind;
  // The body of a loop is everything that the loop does. The body of a product or convolution is
  // its epilogue, in which kAccumulator 0 is the sum of products. Operands that are buffers are
  // values of the graph.
  Body body;
  bool keep_apart = false;  // never fused with others (copies out of temporaries)
  bool overwrites = false;  // writes over what earlier nodes wrote to the same value
  uint32_t phase = 0;       // import/phases.h: nodes of a lower phase run earlier

  template <typename Kind>
  bool Is() const {
    return std::holds_alternative<Kind>(kind);
  }
  // Returns the loop, or null for other kinds.
  Loop* AsLoop() { return std::get_if<Loop>(&kind); }
  const Loop* AsLoop() const { return std::get_if<Loop>(&kind); }
  // The node must be a loop.
  Loop& loop() { return std::get<Loop>(kind); }
  const Loop& loop() const { return std::get<Loop>(kind); }
  // Returns whether this is a loop whose iterations do not depend on each other.
  bool IsMap() const;
  // Returns whether this is a sum of products with a body as its epilogue.
  bool IsProduct() const {
    return Is<Gemm>() || Is<QuantizedGemm>() || Is<GroupedGemm>() || Is<Conv>() ||
           Is<WeightGradient>();
  }

  std::vector<Port> Ports();
  std::vector<ConstPort> Ports() const;
  std::vector<ValueId> Reads() const;  // without duplicates, in order of appearance
  std::vector<ValueId> Writes() const;
};

// Returns whether a body loads element numbers. Only bodies of loop kernels can do that: the loads
// of an epilogue are operands.
bool UsesIota(const Body& body);

struct LoopGraph {
  std::vector<Value> values;
  std::vector<Node> nodes;  // in an order that satisfies all dependencies
  Bytes constants;
};

View PermuteView(const View& view, const std::vector<size_t>& order);
// Grows dimensions of size 1 (or missing leading ones) to `shape`. The caller has checked the
// shapes.
View BroadcastView(const View& view, const Shape& shape);
// Adds leading dimensions of size 1 up to `rank`.
View WithRank(const View& view, size_t rank);
View SliceView(const View& view, size_t dim, int64_t begin, int64_t size, int64_t step);
// Returns false when no strides describe the reshaped window.
bool ReshapeView(const View& view, const Shape& shape, View* result);

// Text of nodes and values for dumps.
std::string ToText(const LoopGraph& graph);
std::string ToText(const Body& body);

}  // namespace hpu::graph_compiler
