// Rewrites calls of kernels by their names.
#include "compiler_server/passes/decompose/call.h"

namespace hpu::compiler {
namespace {

void CustomKernel(Call& call) {
  std::string types;
  for (size_t i = 0; i < call.result_count(); ++i) {
    if (!call.type(i).contiguous()) return call.Refuse("result ", i, " is not row-major");
    types += (i == 0 ? "" : ",") + ir::ToText(call.type(i));
  }
  const ir::Node* node = call.b.EmitNode(OpKind::kCustomKernel, call.Tensors("inputs"),
                                         {{AttrKey::kGuid, call.Text("guid")},
                                          {AttrKey::kParams, call.Text("params")},
                                          {AttrKey::kTypes, types},
                                          {AttrKey::kVersion, call.Int("version")}});
  if (!call.refused()) call.Return(node->results);
}

constexpr HandlerRow kCustomRows[] = {
    {"hpu.custom_kernel.default", CustomKernel},
};

}  // namespace

std::span<const HandlerRow> CustomRows() { return kCustomRows; }

}  // namespace hpu::compiler
