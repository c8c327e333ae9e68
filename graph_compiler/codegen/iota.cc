#include "graph_compiler/codegen/iota.h"

namespace hpu::graph_compiler {
namespace {

Body LowerIota(const Body& body) {
  Body result;
  std::vector<uint32_t> remap;
  const auto append = [&](BodyOp op) {
    result.ops.push_back(std::move(op));
    return static_cast<uint32_t>(result.ops.size() - 1);
  };
  const auto constant = [&](int64_t value) {
    return append(BodyOp{Opcode::kConstInt, ScalarType::kI64, {}, 0, value, {}});
  };
  for (const BodyOp& op : body.ops) {
    BodyOp copy = op;
    if (copy.op == Opcode::kPhiloxUniform) {
      const BodyOp& index = body.ops[copy.args[2]];
      const bool counts = index.op == Opcode::kLoad &&
                          index.access.operand.kind == Operand::Kind::kIota &&
                          !index.access.strides.empty() && index.access.strides.back() == 1;
      copy.imm_int = counts ? 1 : 0;
    }
    for (uint32_t& arg : copy.args) arg = remap[arg];
    if (copy.op == Opcode::kLoad && copy.access.indirect_value != kNoValue) {
      copy.access.indirect_value = remap[copy.access.indirect_value];
    }
    if (copy.op != Opcode::kLoad || copy.access.operand.kind != Operand::Kind::kIota) {
      remap.push_back(append(std::move(copy)));
      continue;
    }
    uint32_t sum = constant(copy.access.offset);
    for (size_t d = 0; d < copy.access.strides.size(); ++d) {
      if (copy.access.strides[d] == 0) continue;
      const uint32_t index =
          append(BodyOp{Opcode::kIndex, ScalarType::kI64, {}, 0, static_cast<int64_t>(d), {}});
      const uint32_t factor = constant(copy.access.strides[d]);
      const uint32_t step =
          append(BodyOp{Opcode::kMul, ScalarType::kI64, {index, factor}, 0, 0, {}});
      sum = append(BodyOp{Opcode::kAdd, ScalarType::kI64, {sum, step}, 0, 0, {}});
    }
    remap.push_back(sum);
  }
  for (Store store : body.stores) {
    store.value = remap[store.value];
    if (store.access.indirect_value != kNoValue) {
      store.access.indirect_value = remap[store.access.indirect_value];
    }
    result.stores.push_back(store);
  }
  return result;
}

}  // namespace

// Results refer to ops by number, so they pass through LowerIota as stores.
LoopPass LowerIota(const LoopPass& pass) {
  LoopPass result = pass;
  for (const LoopPass::Result& r : pass.results) result.body.stores.push_back({r.value, Access{}});
  result.body = LowerIota(result.body);
  for (size_t r = pass.results.size(); r-- > 0;) {
    result.results[r].value = result.body.stores.back().value;
    result.body.stores.pop_back();
  }
  return result;
}

}  // namespace hpu::graph_compiler
