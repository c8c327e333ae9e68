#include "graph_compiler/fusion/build_loop_kernel.h"

#include <algorithm>
#include <map>

#include "graph_compiler/fusion/fusion_state.h"
#include "graph_compiler/fusion/loop_dims.h"
#include "graph_compiler/ir/access_algebra.h"

namespace hpu::graph_compiler {
namespace {

class Builder {
 public:
  Builder(const RowGroup& group, const std::function<bool(ValueId)>& must_be_stored)
      : group_(group), must_be_stored_(must_be_stored) {}

  LoopKernel Build() {
    for (const RowGroup::Member& member : group_.members) AddMember(member);
    for (size_t i = 0; i < passes_.size(); ++i) {
      FinishPass(passes_[i].columns, false);
      FinishPass(passes_[i].after, true);
    }
    kernel_.serial = group_.members[0].node.loop().serial > 0;
    CollectOperands();
    OrderDims(kernel_, group_.domain, group_.num_rows);
    return std::move(kernel_);
  }

 private:
  struct PassPair {
    LoopPass columns;
    LoopPass after;  // row-level work that runs once the columns are folded
  };
  struct Defined {
    const RowGroup::Member* member;
    size_t pass;
    uint32_t value;   // op in its pass
    MemoryType type;  // as stored
    Access store;
    uint32_t accumulator = kNoValue;  // per-row values
    uint32_t scratch = kNoValue;      // full-domain values needed by later passes
    bool stored = false;
  };

  size_t PassOf(const RowGroup::Member& member) const {
    size_t pass = 0;
    for (const BodyOp& op : member.node.body.ops) {
      const auto found = op.op == Opcode::kLoad ? defined_.find(op.access.operand) : defined_.end();
      if (found == defined_.end() || IsOwn(member, op.access.operand)) continue;
      const bool per_row = found->second.accumulator != kNoValue;
      const bool next = per_row && !member.row_level;
      pass = std::max(pass, found->second.pass + (next ? 1 : 0));
    }
    return pass;
  }

  static bool IsOwn(const RowGroup::Member& member, const Operand& operand) {
    return std::any_of(member.node.body.stores.begin(), member.node.body.stores.end(),
                       [&](const Store& store) { return store.access.operand == operand; });
  }

  void AddMember(const RowGroup::Member& member) {
    const size_t number = PassOf(member);
    if (number >= passes_.size()) passes_.resize(number + 1);
    LoopPass& pass = member.row_level ? passes_[number].after : passes_[number].columns;
    Body& body = pass.body;
    std::vector<uint32_t> remap;
    for (const BodyOp& op : member.node.body.ops) {
      BodyOp copy = op;
      for (uint32_t& arg : copy.args) arg = remap[arg];
      if (copy.op == Opcode::kLoad) {
        if (copy.access.indirect_value != kNoValue) {
          copy.access.indirect_value = remap[copy.access.indirect_value];
        }
        const auto found = defined_.find(copy.access.operand);
        if (found != defined_.end() && !IsOwn(member, copy.access.operand)) {
          remap.push_back(Reuse(body, found->second, number, member.row_level));
          continue;
        }
      }
      remap.push_back(static_cast<uint32_t>(body.ops.size()));
      body.ops.push_back(std::move(copy));
    }
    kernel_.name = JoinNodeNames(kernel_.name, member.node.name);
    for (const Store& store : member.node.body.stores) {
      Define(member, number, pass, store, remap);
    }
  }

  void Define(const RowGroup::Member& member, size_t number, LoopPass& pass, const Store& store,
              const std::vector<uint32_t>& remap) {
    Defined defined{&member, number, remap[store.value], store.access.type, store.access};
    Store copy = store;
    copy.value = defined.value;
    if (copy.access.indirect_value != kNoValue) {
      copy.access.indirect_value = remap[copy.access.indirect_value];
    }
    const ValueId value = store.access.operand.number;
    defined.stored = must_be_stored_(value) || store.access.indirect_value != kNoValue ||
                     member.node.loop().serial > 0;
    if (member.reduces || member.row_level) {
      defined.accumulator = static_cast<uint32_t>(kernel_.accumulators.size());
      kernel_.accumulators.push_back(pass.body.ops[defined.value].type);
      results_[defined.accumulator] =
          member.reduces ? member.node.loop().reduce : ReduceKind::kNone;
      AddPassResult(pass.body, defined.value, defined.accumulator);
    }
    if (defined.stored) {
      if (member.reduces) {
        StoreFolded(number, defined);
      } else {
        pass.body.stores.push_back(copy);
      }
    }
    defined_[value] = defined;
  }

  // The result of a reduction is stored to memory after its pass.
  void StoreFolded(size_t number, const Defined& defined) {
    Body& after = passes_[number].after.body;
    const uint32_t value = AppendAccumulator(after, defined.accumulator);
    after.stores.push_back({value, defined.store});
  }

  // Until FinishPass the result is a store like the others, so that simplifying keeps it.
  void AddPassResult(Body& body, uint32_t value, uint32_t accumulator) const {
    const Operand operand(Operand::Kind::kAccumulator, accumulator);
    body.stores.push_back({value, {operand, MemoryType::kF32, Shape(group_.domain.size(), 0), 0}});
  }

  uint32_t AppendAccumulator(Body& body, uint32_t accumulator) {
    body.ops.push_back(
        BodyOp{Opcode::kAccumulator, kernel_.accumulators[accumulator], {}, 0, accumulator, {}});
    return static_cast<uint32_t>(body.ops.size() - 1);
  }

  // Returns the value of an in-group load, as if it had been stored and loaded.
  uint32_t Reuse(Body& body, Defined& defined, size_t number, bool row_level) {
    if (defined.accumulator != kNoValue) {
      const bool same_body = row_level && defined.member->row_level && defined.pass == number;
      const uint32_t value =
          same_body ? defined.value : AppendAccumulator(body, defined.accumulator);
      return Rounded(body, value, defined.type);
    }
    if (defined.pass == number) return Rounded(body, defined.value, defined.type);
    Access access = defined.store;
    if (!defined.stored) {
      if (defined.scratch == kNoValue) AllocateScratch(defined);
      access = ScratchAccess(defined);
    }
    body.ops.push_back(BodyOp{Opcode::kLoad, ComputeType(access.type), {}, 0, 0, access});
    const auto loaded = static_cast<uint32_t>(body.ops.size() - 1);
    return defined.stored ? loaded : Rounded(body, loaded, defined.type);
  }

  uint32_t Rounded(Body& body, uint32_t value, MemoryType type) {
    // The placeholder load is replaced by the conversions that the store would have made.
    body.ops.push_back(BodyOp{Opcode::kLoad, ComputeType(type), {}, 0, 0, {}});
    const auto placeholder = static_cast<uint32_t>(body.ops.size() - 1);
    body.stores.push_back({placeholder, Access{}});
    ForwardValue(body, placeholder, value, type);
    const uint32_t result = body.stores.back().value;
    body.stores.pop_back();
    return result;
  }

  void AllocateScratch(Defined& defined) {
    Body& body = passes_[defined.pass].columns.body;
    const MemoryType type = KeptType(body.ops[defined.value].type);
    const Shape columns(group_.domain.begin() + static_cast<int64_t>(group_.num_rows),
                        group_.domain.end());
    defined.scratch = static_cast<uint32_t>(kernel_.scratch_bytes.size());
    kernel_.scratch_bytes.push_back(
        static_cast<uint64_t>(NumElements(columns) * MemoryTypeSize(type)));
    kernel_.scratch_types.push_back(type);
    body.stores.push_back({defined.value, ScratchAccess(defined)});
  }

  Access ScratchAccess(const Defined& defined) const {
    Shape strides(group_.domain.size(), 0);
    int64_t stride = 1;
    for (size_t d = group_.domain.size(); d-- > group_.num_rows;) {
      strides[d] = stride;
      stride *= group_.domain[d];
    }
    return {Operand(Operand::Kind::kScratch, defined.scratch),
            kernel_.scratch_types[defined.scratch], strides, 0};
  }

  void FinishPass(LoopPass& pass, bool row_level) {
    pass.row_level = row_level;
    if (pass.body.ops.empty()) return;
    SimplifyBody(pass.body);
    std::vector<Store> stores;
    for (const Store& store : pass.body.stores) {
      if (store.access.operand.kind == Operand::Kind::kAccumulator) {
        const uint32_t accumulator = store.access.operand.number;
        pass.results.push_back({store.value, results_[accumulator], accumulator});
      } else {
        stores.push_back(store);
      }
    }
    pass.body.stores = std::move(stores);
    if (pass.body.stores.empty() && pass.results.empty()) return;
    kernel_.passes.push_back(std::move(pass));
  }

  template <typename Function>
  void ForEachAccess(const Function& function) {
    for (LoopPass& pass : kernel_.passes) {
      for (BodyOp& op : pass.body.ops) {
        if (op.op == Opcode::kLoad) function(op.access);
      }
      for (Store& store : pass.body.stores) function(store.access);
    }
  }

  void CollectOperands() {
    std::map<ValueId, uint32_t> numbers;
    ForEachAccess([&](Access& access) {
      if (!access.operand.IsBuffer()) return;
      const ValueId value = access.operand.number;
      const auto [place, is_new] =
          numbers.emplace(value, static_cast<uint32_t>(kernel_.operands.size()));
      if (is_new) kernel_.operands.push_back(value);
      access.operand = place->second;
    });
  }

  const RowGroup& group_;
  const std::function<bool(ValueId)>& must_be_stored_;
  LoopKernel kernel_;
  std::vector<PassPair> passes_;
  std::map<Operand, Defined> defined_;  // by the value, a buffer
  std::map<uint32_t, ReduceKind> results_;
};

}  // namespace

LoopKernel BuildLoopKernel(const RowGroup& group,
                           const std::function<bool(ValueId)>& must_be_stored) {
  return Builder(group, must_be_stored).Build();
}

void BuildLoopKernels(FusionState& state, std::vector<FusedKernel>& kernels) {
  std::vector<size_t> kernel_of(state.num_nodes());
  for (size_t k = 0; k < kernels.size(); ++k) {
    for (const uint32_t node : kernels[k].nodes) kernel_of[node] = k;
  }
  for (size_t k = 0; k < kernels.size(); ++k) {
    if (!kernels[k].is_loop) continue;
    kernels[k].loop = BuildLoopKernel(kernels[k].group, [&](ValueId value) {
      if (!state.IsTemporary(value) || state.writers(value).size() > 1) return true;
      const std::vector<uint32_t>& readers = state.readers(value);
      return std::any_of(readers.begin(), readers.end(),
                         [&](uint32_t reader) { return kernel_of[reader] != k; });
    });
  }
}

}  // namespace hpu::graph_compiler
