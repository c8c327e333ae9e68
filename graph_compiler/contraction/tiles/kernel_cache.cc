#include "graph_compiler/contraction/tiles/kernel_cache.h"

#include <bit>

namespace hpu::graph_compiler {

KernelKey& KernelKey::Add(double value) { return Add(std::bit_cast<int64_t>(value)); }

KernelKey& KernelKey::Add(const std::vector<int64_t>& values) {
  Add(values.size());
  for (const int64_t value : values) Add(value);
  return *this;
}

void KernelKey::Add(const Access& access) {
  Add(access.operand.kind)
      .Add(access.operand.number)
      .Add(access.type)
      .Add(access.strides)
      .Add(access.offset);
  Add(access.indirect_value).Add(access.indirect_stride).Add(access.indirect_limit);
}

KernelKey& KernelKey::Add(const Body& body) {
  Add(body.ops.size());
  for (const BodyOp& op : body.ops) {
    Add(op.op).Add(op.type).Add(op.imm_f32).Add(op.imm_int).Add(op.args.size());
    for (const uint32_t arg : op.args) Add(arg);
    if (op.op == Opcode::kLoad) Add(op.access);
  }
  Add(body.stores.size());
  for (const Store& store : body.stores) {
    Add(store.value);
    Add(store.access);
  }
  return *this;
}

uint32_t KernelCache::GetOrAdd(const KernelKey& key, const std::string& name,
                               const KernelModule::EmitTask& emit) {
  const auto [entry, is_new] =
      ordinals_.try_emplace(key.text(), static_cast<uint32_t>(module_.num_kernels()));
  if (is_new) module_.AddKernel(name, emit);
  return entry->second;
}

}  // namespace hpu::graph_compiler
