#include "graph_compiler/fusion/split_reductions.h"

#include <algorithm>

#include "graph_compiler/codegen/loop_kernel.h"
#include "graph_compiler/ir/access_algebra.h"

namespace hpu::graph_compiler {
namespace {

constexpr int64_t kElementsWorthSplitting = 65536;
constexpr int64_t kFewestTasks = 8;   // reductions with this many tasks stay whole
constexpr int64_t kPieces = 32;       // the least number of pieces, where the sizes allow it
constexpr int64_t kMostPieces = 128;  // the most pieces of one dimension, if not more are needed
// The error of a sum grows with the number of elements that are added one after the other, so long
// rows are cut into more pieces, whose sums are added then.
constexpr int64_t kLongestPiece = 32768;
constexpr int64_t kLongestRow = int64_t{1} << 20;  // longer rows are split even where they are many
constexpr int64_t kMostPiecesOfAll = 65536;
// The most elements that a task folds where lanes are rows. It touches a cache line of each
// element, and the lines lie as far apart as there are rows. Lines that do not fit in the cache
// would be read again by a later pass.
constexpr int64_t kLongestColumn = 256;

int64_t ReducedElements(const Node& node) {
  return NumElements(
      Shape(node.domain.end() - static_cast<int64_t>(node.loop().reduced), node.domain.end()));
}

int64_t PiecesWanted(const Node& node) {
  return std::clamp(ReducedElements(node) / kLongestPiece, kPieces, kMostPiecesOfAll);
}

// Returns whether rows lie side by side in memory, unlike columns, so that they share vectors.
bool RowsAreLanes(const Node& node) {
  const size_t num_rows = node.domain.size() - node.loop().reduced;
  bool rows_are_lanes = false;
  bool columns_are_lanes = false;
  for (const BodyOp& op : node.body.ops) {
    if (op.op != Opcode::kLoad || !op.access.operand.IsBuffer()) continue;
    for (size_t d = 0; d < node.domain.size(); ++d) {
      if (op.access.strides[d] == 1 && node.domain[d] > 1) {
        (d < num_rows ? rows_are_lanes : columns_are_lanes) = true;
      }
    }
  }
  return rows_are_lanes && !columns_are_lanes;
}

bool IsWorthSplitting(const Node& node) {
  if (!node.Is<Loop>() || node.loop().reduced == 0 || node.keep_apart || node.overwrites ||
      NumElements(node.domain) < kElementsWorthSplitting) {
    return false;
  }
  const auto first_column = node.domain.end() - static_cast<int64_t>(node.loop().reduced);
  const int64_t rows = NumElements(Shape(node.domain.begin(), first_column));
  if (!RowsAreLanes(node)) return rows < kFewestTasks || ReducedElements(node) > kLongestRow;
  return (rows + kRowLanes - 1) / kRowLanes < kFewestTasks ||
         NumElements(Shape(first_column, node.domain.end())) > kLongestColumn;
}

// Restricts the node to elements [begin, begin + count) of a dimension.
void Restrict(Node& node, size_t dim, int64_t begin, int64_t count) {
  const auto shift = [&](Access& access) { access.offset += begin * access.strides[dim]; };
  for (BodyOp& op : node.body.ops) {
    if (op.op == Opcode::kLoad) shift(op.access);
  }
  for (Store& store : node.body.stores) shift(store.access);
  node.domain[dim] = count;
}

class Splitter {
 public:
  explicit Splitter(LoopGraph& graph) : graph_(graph) {}

  void Run() {
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (Node& node : nodes) {
      if (IsWorthSplitting(node)) {
        Split(std::move(node));
      } else {
        graph_.nodes.push_back(std::move(node));
      }
    }
  }

 private:
  // Reduced dimensions become rows, outermost first, until there are enough pieces. The last of
  // these dimensions is split, and the elements left over get a node of their own.
  void Split(Node node) {
    const Node whole = node;
    const int64_t wanted = PiecesWanted(node);
    const int64_t most = std::max(kMostPieces, 2 * wanted);
    int64_t pieces = 1;
    int64_t rest = 0;
    size_t& reduced = node.loop().reduced;
    size_t dim = node.domain.size() - reduced;
    while (pieces < wanted && reduced > 0 && rest == 0) {
      const int64_t size = node.domain[dim];
      if (size * pieces > most) {
        const int64_t count = PiecesOf(size, (wanted + pieces - 1) / pieces, most);
        rest = size % count;
        Restrict(node, dim, 0, size - rest);
        SplitDim(node, dim, size / count);
        pieces *= count;
      } else {
        pieces *= size;
      }
      ++dim;
      --reduced;
    }
    if (ReducedElements(node) == 1) {  // nothing is folded any more: the rows are too short
      graph_.nodes.push_back(whole);
      return;
    }
    EmitParts(whole, std::move(node), dim, rest);
  }

  // Returns a divisor of `size` between `wanted` and `most` that leaves something to fold, or
  // `wanted` if there is none.
  static int64_t PiecesOf(int64_t size, int64_t wanted, int64_t most) {
    for (int64_t count = wanted; count <= std::min(most, size / 2); ++count) {
      if (size % count == 0) return count;
    }
    return wanted;
  }

  // The first `num_rows` dimensions of `part` are rows. The last of them lacks `rest` elements of
  // `whole`.
  void EmitParts(const Node& whole, Node part, size_t num_rows, int64_t rest) {
    const size_t own_rows = whole.domain.size() - whole.loop().reduced;
    const Store& result = whole.body.stores[0];
    Shape shape(part.domain.begin(), part.domain.begin() + static_cast<int64_t>(num_rows));
    const int64_t pieces = shape.back();
    if (rest > 0) ++shape.back();
    const MemoryType type = KeptType(whole.body.ops[result.value].type);
    Access partial{NewValue(whole.name, type, shape), type, RowMajorStrides(shape)};

    Access to = partial;
    to.strides.resize(part.domain.size(), 0);
    part.body.stores[0].access = to;
    graph_.nodes.push_back(std::move(part));
    if (rest > 0) {
      Node tail = whole;
      // The earlier rows of the part are whole dimensions of the node.
      const size_t dim = num_rows - 1;
      const int64_t size = whole.domain[dim];
      tail.loop().reduced = whole.domain.size() - dim;
      Restrict(tail, dim, size - rest, rest);
      // Folding one element is no reduction.
      if (ReducedElements(tail) == 1) tail.loop().reduced = 0;
      Access last = partial;
      last.strides.resize(dim);
      last.strides.resize(tail.domain.size(), 0);
      last.offset = pieces;
      tail.body.stores[0].access = last;
      graph_.nodes.push_back(std::move(tail));
    }

    Node join;
    join.name = whole.name;
    join.phase = whole.phase;
    join.domain = shape;
    join.kind = Loop{.reduced = num_rows - own_rows, .reduce = whole.loop().reduce};
    join.body.ops.push_back(BodyOp{Opcode::kLoad, ComputeType(type), {}, 0, 0, partial});
    Store store = result;
    store.value = 0;
    store.access.strides.resize(num_rows);
    std::fill(store.access.strides.begin() + static_cast<int64_t>(own_rows),
              store.access.strides.end(), 0);
    join.body.stores.push_back(store);
    graph_.nodes.push_back(std::move(join));
  }

  ValueId NewValue(const std::string& name, MemoryType type, const Shape& shape) {
    Value value{name, type, shape, RowMajorStrides(shape)};
    value.bytes = static_cast<uint64_t>(NumElements(shape) * MemoryTypeSize(type));
    graph_.values.push_back(value);
    return static_cast<ValueId>(graph_.values.size() - 1);
  }

  LoopGraph& graph_;
};

}  // namespace

void SplitReductions(LoopGraph& graph) { Splitter(graph).Run(); }

}  // namespace hpu::graph_compiler
