#include "graph_compiler/ir/verify.h"

#include <algorithm>

namespace hpu::graph_compiler {
namespace {

class Verifier {
 public:
  explicit Verifier(const LoopGraph& graph) : graph_(graph) {}

  absl::Status Run() {
    for (const Value& value : graph_.values) {
      RETURN_IF_ERROR_AT(CheckValue(value), "value '" + value.name + "'");
    }
    uint32_t phase = 0;
    std::vector<bool> written(graph_.values.size(), false);
    for (const Node& node : graph_.nodes) {
      RETURN_IF_ERROR_AT(CheckNode(node), "node '" + node.name + "'");
      if (node.phase < phase) return Internal("node '", node.name, "' is behind a later phase");
      phase = node.phase;
      for (const ValueId value : node.Writes()) written[value] = true;
    }
    for (const Node& node : graph_.nodes) {
      for (const ValueId value : node.Reads()) {
        if (graph_.values[value].home != Home::kWorkspace || written[value]) continue;
        return Internal("node '", node.name, "' reads %", value, ", which nothing writes");
      }
      for (const ValueId value : node.Writes()) {
        if (graph_.values[value].home != Home::kConstant) continue;
        return Internal("node '", node.name, "' writes the constant %", value);
      }
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status CheckValue(const Value& value) {
    if (value.shape.size() != value.strides.size()) return Internal("shape and strides differ");
    if (value.home == Home::kPersistent && value.tensor == kNoTensor) {
      return Internal("is persistent but belongs to no tensor");
    }
    return absl::OkStatus();
  }

  absl::Status CheckNode(const Node& node) const {
    if (const Loop* loop = node.AsLoop()) RETURN_IF_ERROR(CheckLoop(*loop, node.domain.size()));
    RETURN_IF_ERROR(CheckBody(node));
    for (const ConstPort& port : node.Ports()) RETURN_IF_ERROR(CheckView(*port.view, port.name));
    return absl::OkStatus();
  }

  static absl::Status CheckLoop(const Loop& loop, size_t rank) {
    if (loop.reduced + loop.serial > rank || (loop.reduced > 0 && loop.serial > 0)) {
      return Internal(loop.reduced, " folded and ", loop.serial, " serial dimensions of ", rank);
    }
    if (loop.reduced > 0 && loop.reduce == ReduceKind::kNone) return Internal("folds by nothing");
    return absl::OkStatus();
  }

  absl::Status CheckBody(const Node& node) const {
    const std::vector<BodyOp>& ops = node.body.ops;
    for (uint32_t i = 0; i < ops.size(); ++i) {
      const std::string where = "v" + std::to_string(i);
      for (const uint32_t arg : ops[i].args) {
        if (arg >= i) return Internal(where, " uses v", arg, ", which comes later");
      }
      if (ops[i].op == Opcode::kAccumulator && !node.IsProduct()) {
        return Internal(where, " is the sum of a product, the node has none");
      }
      if (ops[i].op != Opcode::kLoad) continue;
      RETURN_IF_ERROR_AT(CheckAccess(node, ops[i].access, i), where);
    }
    const size_t folded = node.Is<Loop>() ? node.loop().reduced : 0;
    for (const Store& store : node.body.stores) {
      const auto count = static_cast<uint32_t>(ops.size());
      if (store.value >= count) return Internal("stores v", store.value, " of ", count);
      if (!store.access.operand.IsBuffer())
        return Internal("stores to an operand that is not a value");
      RETURN_IF_ERROR_AT(CheckAccess(node, store.access, count), "store");
      for (size_t d = node.domain.size() - folded; d < node.domain.size(); ++d) {
        if (store.access.strides[d] != 0 && node.domain[d] > 1) {
          return Internal("store walks the folded dimension ", d);
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckAccess(const Node& node, const Access& access, uint32_t before) const {
    if (access.strides.size() != node.domain.size()) {
      return Internal("access of rank ", access.strides.size(), " in a node of rank ",
                      node.domain.size());
    }
    if (access.indirect_value != kNoValue && access.indirect_value >= before) {
      return Internal("index v", access.indirect_value, " comes later");
    }
    if (access.operand.kind == Operand::Kind::kIota) return absl::OkStatus();
    if (!access.operand.IsBuffer()) return Internal("loads an operand that only kernels have");
    const ValueId value = access.operand.number;
    if (value >= graph_.values.size()) return Internal("no value %", value);
    const int64_t indirect =
        access.indirect_value == kNoValue
            ? 0
            : access.indirect_stride * std::max<int64_t>(access.indirect_limit - 1, 0);
    return CheckRange(value, access.type, node.domain, access.strides, access.offset, indirect);
  }

  absl::Status CheckView(const View& view, const char* what) const {
    if (view.shape.size() != view.strides.size()) return Internal(what, ": shape and strides");
    if (view.value >= graph_.values.size()) return Internal(what, ": no value %", view.value);
    return Annotate(CheckRange(view.value, view.type, view.shape, view.strides, view.offset, 0),
                    what);
  }

  // `further` is the number of elements that an index may add.
  absl::Status CheckRange(ValueId value, MemoryType type, const Shape& shape, const Shape& strides,
                          int64_t offset, int64_t further) const {
    if (NumElements(shape) == 0) return absl::OkStatus();
    int64_t low = offset + std::min<int64_t>(further, 0);
    int64_t high = offset + std::max<int64_t>(further, 0);
    for (size_t d = 0; d < shape.size(); ++d) {
      (strides[d] < 0 ? low : high) += strides[d] * (shape[d] - 1);
    }
    const auto bytes = static_cast<int64_t>(graph_.values[value].bytes);
    if (low >= 0 && (high + 1) * MemoryTypeSize(type) <= bytes) return absl::OkStatus();
    return Internal("elements ", low, " to ", high, " of %", value, ", which has ", bytes,
                    " bytes");
  }

  const LoopGraph& graph_;
};

}  // namespace

absl::Status Verify(const LoopGraph& graph) { return Verifier(graph).Run(); }

}  // namespace hpu::graph_compiler
