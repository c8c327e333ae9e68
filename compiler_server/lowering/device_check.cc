#include "compiler_server/lowering/device_check.h"

#include <type_traits>

#include "compiler_server/lowering/lower.h"
#include "compiler_server/lowering/syn_graph.h"

namespace hpu::compiler {
namespace {

void PutType(const ir::TensorType& type, ByteWriter* key) {
  key->Put(type.dtype);
  key->PutVector(type.sizes);
  key->PutVector(type.strides);
}

void PutAttr(const ir::Attr& attr, ByteWriter* key) {
  key->Put(static_cast<uint8_t>(attr.index()));
  std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::string>) {
          key->PutString(value);
        } else if constexpr (std::is_same_v<T, ir::Dims>) {
          key->PutVector(value);
        } else {
          key->Put(value);
        }
      },
      attr);
}

Bytes KeyOf(const ir::Node& node) {
  ByteWriter key;
  key.Put(node.op);
  for (const auto& [name, attr] : node.attrs.items()) {
    key.Put(name);
    PutAttr(attr, &key);
  }
  key.Put(static_cast<uint32_t>(node.operands.size()));
  for (const ir::Value* operand : node.operands) {
    PutType(operand == nullptr ? ir::TensorType{} : operand->type, &key);
  }
  for (const ir::Value* result : node.results) PutType(result->type, &key);
  return key.Take();
}

// A tensor with memory of its own; null for a value that is absent or has no elements.
Tensor Bound(SynGraph& graph, const char* role, size_t index, const ir::Value* value,
             const ir::Dims& sizes) {
  const DType dtype = MovedType(value->type.dtype);
  if (value->type.elements() == 0) return {nullptr, dtype, value->type.sizes};
  return graph.Persistent(role + std::to_string(index), dtype, sizes, graph.Section(), 0);
}

}  // namespace

absl::Status DeviceCheck::Check(const ir::Node& node) {
  RETURN_IF_ERROR(CheckLowerable(node));
  if (functions_.synEmulatorGraphCheck == nullptr) {
    // Only the emulator has this node.
    if (node.op != ir::OpKind::kRandomUniform) return absl::OkStatus();
    return Unimplemented("the device has no ", ir::OpName(node.op), " of seed and offset");
  }
  const auto [answer, is_new] = answers_.try_emplace(KeyOf(node));
  if (is_new) answer->second = Ask(node);
  return answer->second;
}

absl::Status DeviceCheck::Ask(const ir::Node& node) const {
  const bool calculates = std::ranges::any_of(
      node.results, [](const ir::Value* result) { return result->type.elements() > 0; });
  if (!calculates) return absl::OkStatus();
  SynGraph graph(functions_, {device_, deterministic_});
  NodeLowering at{graph, node, {}, {}};
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const ir::Value* operand = node.operands[i];
    if (operand == nullptr) {
      at.in.emplace_back();
      continue;
    }
    // Strided memory is read and written in its own order.
    const bool flat =
        (node.op == ir::OpKind::kAsStrided || node.op == ir::OpKind::kAsStridedScatter) &&
        !operand->type.contiguous();
    at.in.push_back(Bound(graph, "in", i, operand,
                          flat ? ir::Dims{ir::SpanElements(operand->type)} : operand->type.sizes));
  }
  for (size_t i = 0; i < node.results.size(); ++i) {
    at.out.push_back(Bound(graph, "out", i, node.results[i], node.results[i]->type.sizes));
  }
  Lower(at);
  const absl::Status status = graph.CheckOnDevice();
  return status.ok() ? status : Unimplemented(ir::OpName(node.op), ": ", status.message());
}

}  // namespace hpu::compiler
