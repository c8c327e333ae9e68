#include "graph_compiler/fusion/row_groups.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "graph_compiler/fusion/shared_memory.h"
#include "graph_compiler/ir/access_algebra.h"
#include "graph_compiler/ir/transposition.h"

namespace hpu::graph_compiler {
namespace {

// This bounds the code of one kernel. Within a pass values are registers, which are spilled at
// worst, and that costs less than passing them through memory (docs/decisions/0005).
constexpr size_t kMostMembers = 96;
// The number of kernels that are tried as siblings. Without a bound, a value with thousands of
// readers would take their square.
constexpr size_t kMostSiblings = 64;

bool CanGroup(const Node& node) {
  return node.Is<Loop>() && node.loop().serial == 0 && !node.keep_apart && !node.overwrites &&
         !FindTransposition(node.body, node.domain).has_value();
}

struct Definition {
  const RowGroup::Member* member = nullptr;
  const Store* store = nullptr;
};

Definition FindDefinition(const RowGroup& group, const Operand& operand) {
  for (const RowGroup::Member& member : group.members) {
    for (const Store& store : member.node.body.stores) {
      if (store.access.operand == operand) return {&member, &store};
    }
  }
  return {};
}

bool HasColumns(const RowGroup& group) { return group.num_rows < group.domain.size(); }

// Returns the dimensions of the group that a definition walks.
Shape DefinedDomain(const RowGroup& group, const RowGroup::Member& member) {
  Shape domain = group.domain;
  if (member.reduces || member.row_level) {
    std::fill(domain.begin() + static_cast<int64_t>(group.num_rows), domain.end(), 1);
  }
  return domain;
}

bool SamePosition(const Access& load, const Access& store, const Shape& domain) {
  if (load.offset != store.offset || load.type != store.type || load.indirect_value != kNoValue) {
    return false;
  }
  for (size_t d = 0; d < domain.size(); ++d) {
    if (domain[d] > 1 && load.strides[d] != store.strides[d]) return false;
  }
  return true;
}

// Returns whether all loads of in-group values are at the iteration's own position.
bool LoadsArePositional(const RowGroup& group, const RowGroup::Member& candidate) {
  for (const BodyOp& op : candidate.node.body.ops) {
    if (op.op != Opcode::kLoad) continue;
    const Definition definition = FindDefinition(group, op.access.operand);
    if (definition.member == nullptr) continue;
    const bool per_row = definition.member->reduces || definition.member->row_level;
    if (candidate.row_level && !per_row) return false;
    if (!SamePosition(op.access, definition.store->access, group.domain)) return false;
  }
  return true;
}

// Moves the dimensions marked in `columns` to the end, in all members.
void SetColumns(RowGroup& group, const std::vector<bool>& columns) {
  std::vector<size_t> order;
  for (const bool wanted : {false, true}) {
    for (size_t d = 0; d < columns.size(); ++d) {
      if (columns[d] == wanted) order.push_back(d);
    }
  }
  Shape domain;
  for (const size_t d : order) domain.push_back(group.domain[d]);
  group.domain = domain;
  group.num_rows = static_cast<size_t>(std::count(columns.begin(), columns.end(), false));
  for (RowGroup::Member& member : group.members) PermuteDims(member.node, order);
}

bool IsColumn(const RowGroup& group, size_t dim) { return dim >= group.num_rows; }

// A reduction in the aligned node must fold exactly the group's columns (or it chooses them).
bool FitColumns(RowGroup& group, Alignment& aligned, bool reduces) {
  if (!reduces) return true;
  if (!HasColumns(group)) {
    std::vector<bool> columns = aligned.from_reduced;
    bool any = false;
    for (size_t d = 0; d < columns.size(); ++d) any = any || columns[d];
    if (!any) return false;
    std::vector<size_t> order;
    for (const bool wanted : {false, true}) {
      for (size_t d = 0; d < columns.size(); ++d) {
        if (columns[d] == wanted) order.push_back(d);
      }
    }
    SetColumns(group, columns);
    PermuteDims(aligned.node, order);
    return true;
  }
  for (size_t d = 0; d < group.domain.size(); ++d) {
    if (group.domain[d] == 1) continue;
    if (aligned.from_reduced[d] != IsColumn(group, d)) return false;
  }
  return true;
}

const Access* FindLoad(const Node& node, ValueId value) {
  for (const BodyOp& op : node.body.ops) {
    if (op.op == Opcode::kLoad && op.access.operand == value) return &op.access;
  }
  return nullptr;
}

// How a group walks a value: by the store that defines it, or by a member's load.
struct Anchor {
  Access access;
  Shape domain;
  bool per_row = false;  // one element per row
};

std::optional<Anchor> DefinitionAnchor(const RowGroup& group, ValueId value) {
  const Definition definition = FindDefinition(group, value);
  if (definition.member == nullptr) return std::nullopt;
  return Anchor{definition.store->access, DefinedDomain(group, *definition.member),
                definition.member->reduces || definition.member->row_level};
}

// Returns a load that visits one element of the value per iteration of the group.
std::optional<Anchor> LoadAnchor(const RowGroup& group, ValueId value) {
  for (const RowGroup::Member& member : group.members) {
    const Access* load = member.row_level ? nullptr : FindLoad(member.node, value);
    if (load == nullptr || load->indirect_value != kNoValue) continue;
    bool full = true;
    for (size_t d = 0; d < group.domain.size(); ++d) {
      full = full && (group.domain[d] == 1 || load->strides[d] != 0);
    }
    if (full) return Anchor{*load, group.domain, false};
  }
  return std::nullopt;
}

// Returns the group with `node` added. The node reads `value`, and the group walks it at `anchor`.
std::optional<RowGroup> WithMember(const RowGroup& group, const Node& original, ValueId value,
                                   const Anchor& anchor) {
  if (group.members.size() >= kMostMembers) return std::nullopt;
  Node node = original;
  const Access* load = FindLoad(node, value);
  if (load == nullptr) return std::nullopt;
  const Access access = *load;
  IndexMap map;
  if (!ComposeAccess(node, access, anchor.domain, anchor.access, &map)) return std::nullopt;
  const bool per_row = anchor.per_row;
  std::vector<bool> free_dims(group.domain.size(), false);
  Shape target = group.domain;
  bool row_level = false;
  if (per_row) {
    // Dimensions that do not walk the rows are all columns, or there are none if the node is about
    // rows only.
    int64_t loose = 1;
    for (size_t i = 0; i < node.domain.size(); ++i) {
      const bool walks =
          std::any_of(map.steps[i].begin(), map.steps[i].end(), [](int64_t s) { return s != 0; });
      if (!walks) loose *= node.domain[i];
    }
    row_level = loose == 1;
    for (size_t d = group.num_rows; d < group.domain.size(); ++d) free_dims[d] = !row_level;
  }
  if (row_level && node.loop().reduced > 0) return std::nullopt;
  Alignment aligned;
  if (!AlignNode(node, map, target, free_dims, &aligned)) return std::nullopt;
  for (size_t d = 0; d < group.domain.size(); ++d) {
    const bool wanted = group.domain[d] > 1 && !(row_level && IsColumn(group, d));
    if (wanted && !aligned.has_source[d]) return std::nullopt;
  }
  const bool reduces = node.loop().reduced > 0;
  RowGroup changed = group;
  if (!FitColumns(changed, aligned, reduces)) return std::nullopt;
  RowGroup::Member member{std::move(aligned.node), reduces, row_level};
  member.node.loop().reduced = reduces ? changed.domain.size() - changed.num_rows : 0;
  if (!LoadsArePositional(changed, member)) return std::nullopt;
  changed.members.push_back(std::move(member));
  return changed;
}

class Grouper {
 public:
  Grouper(FusionState& state, std::vector<FusedKernel>& kernels)
      : state_(state), kernels_(kernels), kernel_of_(state.num_nodes()) {
    std::iota(kernel_of_.begin(), kernel_of_.end(), 0u);
    order_ = MergeOrder(static_cast<uint32_t>(kernels.size()), Successors());
  }

  void Run() {
    for (uint32_t i = 0; i < state_.num_nodes(); ++i) {
      if (CanGroup(state_.node(i)) && !JoinProducer(i)) JoinSibling(i);
    }
    std::vector<FusedKernel> result;
    for (uint32_t i = 0; i < kernels_.size(); ++i) {
      if (kernel_of_[i] == i) result.push_back(std::move(kernels_[i]));
    }
    kernels_ = std::move(result);
  }

 private:
  bool JoinProducer(uint32_t index) {
    const Node& node = state_.node(index);
    for (const ValueId value : node.Reads()) {
      for (const uint32_t writer : state_.writers(value)) {
        if (state_.writers(value).size() != 1) continue;
        const auto anchor = DefinitionAnchor(kernels_[kernel_of_[writer]].group, value);
        if (writer < index && anchor.has_value() && Join(index, writer, value, *anchor))
          return true;
      }
    }
    return false;
  }

  // Kernels that read the same elements in the same order become one, so that the value is read
  // once.
  void JoinSibling(uint32_t index) {
    const Node& node = state_.node(index);
    for (const ValueId value : node.Reads()) {
      const std::vector<uint32_t>& readers = state_.readers(value);
      // Kernels that take no more members stay so, and thousands of readers may be in them.
      size_t& first = first_open_[value];
      while (first < readers.size() && readers[first] < index &&
             IsClosed(kernels_[kernel_of_[readers[first]]])) {
        ++first;
      }
      std::vector<uint32_t> tried;
      for (size_t k = first; k < readers.size(); ++k) {
        const uint32_t reader = readers[k];
        if (reader >= index || tried.size() == kMostSiblings) break;
        const uint32_t kernel = kernel_of_[reader];
        if (std::find(tried.begin(), tried.end(), kernel) != tried.end()) continue;
        tried.push_back(kernel);
        const auto anchor = LoadAnchor(kernels_[kernel].group, value);
        if (anchor.has_value() && Join(index, reader, value, *anchor)) return;
      }
    }
  }

  static bool IsClosed(const FusedKernel& kernel) {
    return !kernel.is_loop || kernel.group.members.size() >= kMostMembers;
  }

  bool Join(uint32_t index, uint32_t other, ValueId value, const Anchor& anchor) {
    const uint32_t target = kernel_of_[other];
    FusedKernel& kernel = kernels_[target];
    const Node& node = state_.node(index);
    if (!kernel.is_loop || !CanGroup(state_.node(other)) ||
        node.phase != state_.node(other).phase || ReadsUnfinished(index, target)) {
      return false;
    }
    std::optional<RowGroup> joined = WithMember(kernel.group, node, value, anchor);
    if (!joined.has_value() || !SharesRightly(state_, *joined)) return false;
    if (!order_.Merge(target, index, Successors())) return false;
    kernel.group = std::move(*joined);
    kernel.nodes.push_back(index);
    kernel_of_[index] = target;
    return true;
  }

  // Returns whether the node reads a value that the kernel writes only in part.
  bool ReadsUnfinished(uint32_t index, uint32_t target) {
    for (const ValueId value : state_.node(index).Reads()) {
      const std::vector<uint32_t>& writers = state_.writers(value);
      const auto in_target = [&](uint32_t writer) { return kernel_of_[writer] == target; };
      if (writers.size() > 1 && std::any_of(writers.begin(), writers.end(), in_target)) return true;
    }
    return false;
  }

  MergeOrder::Successors Successors() const {
    return [this](uint32_t kernel, const MergeOrder::Visit& visit) {
      for (const uint32_t member : kernels_[kernel].nodes) {
        state_.ForEachSuccessor(member, [&](uint32_t next) { visit(kernel_of_[next]); });
      }
    };
  }

  FusionState& state_;
  std::vector<FusedKernel>& kernels_;  // by first node
  std::vector<uint32_t> kernel_of_;    // by node
  // By value: the first of its readers whose kernel may take another member.
  std::unordered_map<ValueId, size_t> first_open_;
  MergeOrder order_;  // of kernels, by first node
};

}  // namespace

RowGroup SingletonGroup(const Node& node) {
  RowGroup group;
  group.domain = node.domain;
  const Loop& loop = node.loop();
  group.num_rows = node.domain.size() - loop.reduced - loop.serial;
  group.members.push_back({node, loop.reduced > 0, false});
  return group;
}

std::vector<FusedKernel> SingleKernels(const LoopGraph& graph) {
  std::vector<FusedKernel> kernels(graph.nodes.size());
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    kernels[i].nodes = {i};
    kernels[i].is_loop = node.Is<Loop>();
    if (kernels[i].is_loop) kernels[i].group = SingletonGroup(node);
  }
  return kernels;
}

void GroupRows(FusionState& state, std::vector<FusedKernel>& kernels) {
  Grouper(state, kernels).Run();
}

}  // namespace hpu::graph_compiler
