#include "compiler_server/lowering/segment_lowering.h"

#include <algorithm>
#include <set>

#include "compiler_server/lowering/dims.h"

namespace hpu::compiler {
namespace {

using ir::Dims;
using ir::Value;
using ir::ValueKind;

// Describes how strided memory becomes a row-major tensor: the elements in memory order (row-major
// `physical`), and the steps from there to the value.
struct StridedAccess {
  bool dense = false;  // if not, the elements are `span` long and need a strided view
  Dims physical;
  // value without broadcast = permute(physical, perm), with the size-1 dimensions added again.
  Dims perm;
  Dims unexpanded;  // sizes of the value before broadcasting
};

// Dimensions of stride 0 are broadcast, and those of size 1 are skipped. The others must be nested.
StridedAccess AnalyseStrides(const ir::TensorType& type) {
  StridedAccess access;
  std::vector<int64_t> real;  // dimensions with more than one address
  access.unexpanded = type.sizes;
  for (int64_t d = 0; d < type.rank(); ++d) {
    if (type.sizes[d] == 1 || type.strides[d] == 0) {
      access.unexpanded[d] = 1;
    } else {
      real.push_back(d);
    }
  }
  ir::TensorType core{type.dtype, {}, {}};
  for (int64_t d : real) {
    core.sizes.push_back(type.sizes[d]);
    core.strides.push_back(type.strides[d]);
  }
  Dims order;
  access.dense = ir::IsDense(core, &order);
  if (!access.dense) return access;
  access.perm.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    access.physical.push_back(core.sizes[order[i]]);
    access.perm[order[i]] = static_cast<int64_t>(i);
  }
  return access;
}

}  // namespace

absl::Status SegmentLowering::Run() {
  for (const Write& write : segment_.writes) {
    if (write.kind != Write::Kind::kStorage) continue;
    const Memory memory = memory_.StorageMemory(write.index);
    const Value* value = graph_.storages()[write.index].value;
    if (memory.view.type.contiguous()) storages_.emplace(value->id, memory);
  }
  for (const ir::Node* node : segment_.nodes) Emit(*node);
  std::vector<const ir::Mutation*> mutations;
  for (const Write& write : segment_.writes) {
    if (write.kind == Write::Kind::kStorage) {
      WriteStorage(write.index);
    } else {
      mutations.push_back(&graph_.mutations()[write.index]);
    }
  }
  ApplyMutations(mutations);
  return syn_.status();
}

void SegmentLowering::WriteStorage(uint32_t storage) {
  Value* value = graph_.storages()[storage].value;
  const Memory memory = memory_.StorageMemory(storage);
  const Tensor tensor = Get(value);
  const auto direct = stored_directly_.find(value->id);
  if (direct != stored_directly_.end() && direct->second == KeyOf(memory)) return;
  syn_.SetOp("store");
  StoreTo(tensor, memory, "");
}

// All values are computed first: those in memory that a mutation overwrites are copied. Then come
// the writes, of which the first waits for everything and each further one for the write before it.
void SegmentLowering::ApplyMutations(const std::vector<const ir::Mutation*>& mutations) {
  std::set<uint32_t> mutated, by_insertion;
  for (const ir::Mutation* mutation : mutations) {
    mutated.insert(graph_.inputs()[mutation->input].value->id);
    if (!AnalyseStrides(mutation->view.type).dense) by_insertion.insert(mutation->input);
  }
  std::vector<Tensor> values;
  for (const ir::Mutation* mutation : mutations) {
    values.push_back(Get(mutation->value));
    syn_.SetOp("mutate");
    if (!mutated.contains(plan_.Root(mutation->value)->id)) continue;
    const Tensor copy = syn_.Intermediate(values.back().dtype, values.back().sizes);
    syn_.Node("memcpy", {values.back()}, {copy});
    values.back() = copy;
  }
  std::map<uint32_t, Tensor> contents;
  for (uint32_t input : by_insertion) {
    const Memory memory = memory_.InputMemory(input);
    const ir::TensorType& type = memory.view.type;
    contents[input] =
        Bind(memory, MovedType(type.dtype), {ir::SpanElements(type)}, 0, Access::kRead);
  }
  size_t before_this = 0;  // first node that the write must wait for
  for (size_t i = 0; i < mutations.size(); ++i) {
    const ir::Mutation& mutation = *mutations[i];
    const size_t begin = syn_.node_count();
    Memory memory = memory_.InputMemory(mutation.input);
    // The written tensor has the section and offset of the tensor that it overwrites.
    if (by_insertion.contains(mutation.input)) {
      Tensor& before = contents[mutation.input];
      const Tensor after = Bind(memory, before.dtype, before.sizes, 0, Access::kWrite, "_written");
      const synStridedOpParams params =
          StridedParams(mutation.view.type.strides, mutation.view.offset);
      syn_.Node("strided_insert", {before, values[i]}, {after}, Params(params));
      before = after;
    } else {
      memory.view = mutation.view;
      StoreTo(values[i], memory, "_written");
    }
    syn_.RunAfter(before_this, begin, syn_.node_count());
    if (begin != syn_.node_count()) before_this = begin;
  }
}

// Returns the tensor of a value. At their first use, values from outside are loaded and free nodes
// are emitted.
Tensor SegmentLowering::Get(Value* value) {
  const auto known = tensors_.find(value->id);
  if (known != tensors_.end()) return known->second;
  const DType dtype = MovedType(value->type.dtype);
  if (value->type.elements() == 0) {
    return tensors_[value->id] = Tensor{nullptr, dtype, value->type.sizes};
  }
  if (value->kind == ValueKind::kResult && plan_.IsFree(*value->producer)) {
    Emit(*value->producer);
    return tensors_[value->id];
  }
  if (value->kind == ValueKind::kConstant && value->type.bytes() <= kMaxRecipeConstantBytes) {
    return tensors_[value->id] =
               syn_.Constant(dtype, value->type.sizes, graph_.constants()[value->index].data);
  }
  const std::optional<Memory> home = OutsideMemory(*value);
  if (!home.has_value()) {
    syn_.Fail(Internal("value ", value->id, " is read by a step but has no memory"));
    return {};
  }
  syn_.SetOp("load");
  return tensors_[value->id] = Load(*home);
}

// The memory that a value has before this recipe starts. A value has none if it is made here, or if
// it is a view that every reader repeats.
std::optional<Memory> SegmentLowering::OutsideMemory(Value& value) {
  if (&value != plan_.Root(&value)) return std::nullopt;
  const int segment = plan_.SegmentOf(value);
  if (segment >= 0 && &plan_.segments()[static_cast<size_t>(segment)] == &segment_) {
    return std::nullopt;
  }
  return memory_.HomeOf(value);
}

// as_strided of memory from outside becomes another way to load that memory.
bool SegmentLowering::EmitStridedRead(const ir::Node& node) {
  std::optional<Memory> memory = OutsideMemory(*node.operands[0]);
  if (!memory.has_value()) return false;
  const Value& result = *node.result();
  memory->view.type = {result.type.dtype, result.type.sizes, node.Ints(ir::AttrKey::kStrides)};
  memory->view.offset += node.Int(ir::AttrKey::kOffset);
  syn_.SetOp("load");
  tensors_[result.id] = Load(*memory);
  return true;
}

void SegmentLowering::Emit(const ir::Node& node) {
  const bool empty = std::all_of(node.results.begin(), node.results.end(),
                                 [](const Value* result) { return result->type.elements() == 0; });
  if (empty || !syn_.status().ok()) return;
  if (node.op == ir::OpKind::kAsStrided && EmitStridedRead(node)) return;
  NodeLowering at{syn_, node, {}, {}};
  for (Value* operand : node.operands) {
    if (operand == nullptr) {
      at.in.emplace_back();
    } else if (node.op == ir::OpKind::kAsStridedScatter && !operand->type.contiguous()) {
      // Only values with memory of their own are strided. The op writes into a copy of it.
      Memory memory = *OutsideMemory(*operand);
      const ir::TensorType& type = memory.view.type;
      memory.view.type = ir::Contiguous(type.dtype, {ir::SpanElements(type)});
      at.in.push_back(Load(memory));
    } else {
      at.in.push_back(Get(operand));
    }
  }
  for (Value* result : node.results) {
    at.out.push_back(ResultTensor(result));
    tensors_[result->id] = at.out.back();
  }
  Lower(at);
}

// The memory that a node may write its result to without a copy: its home, or a storage for it in
// this segment, if the order is row-major.
std::optional<Memory> SegmentLowering::DirectTarget(const Value& value) {
  if (!plan_.IsFree(*value.producer)) {
    const std::optional<Memory> home = memory_.HomeOf(value);
    if (home.has_value() && home->view.type.contiguous()) return home;
  }
  const auto storage = storages_.find(value.id);
  if (storage == storages_.end()) return std::nullopt;
  return storage->second;
}

Tensor SegmentLowering::ResultTensor(Value* value) {
  const DType dtype = MovedType(value->type.dtype);
  const std::optional<Memory> target = DirectTarget(*value);
  if (!target.has_value()) return syn_.Intermediate(dtype, value->type.sizes);
  stored_directly_[value->id] = KeyOf(*target);
  return Bind(*target, dtype, value->type.sizes, target->view.offset, Access::kWrite);
}

synSectionHandle SegmentLowering::SectionOf(const MemoryKey& key) {
  const auto known = sections_.find(key);
  if (known != sections_.end()) return known->second;
  ordinals_[key] = sections_.size();
  return sections_[key] = syn_.Section();
}

// Makes a row-major tensor over memory from element `offset` on. Names are unique in the recipe and
// do not depend on the program around the segment, so that equal segments have equal recipes.
Tensor SegmentLowering::Bind(const Memory& memory, DType dtype, const Dims& sizes, int64_t offset,
                             Access access, std::string_view role) {
  const MemoryKey key = KeyOf(memory);
  const synSectionHandle section = SectionOf(key);
  std::string name = "memory" + std::to_string(ordinals_.at(key)) + std::string(role);
  const int earlier = names_[name]++;
  if (earlier > 0) name += "_" + std::to_string(earlier);
  const DType stored = memory.view.type.dtype;
  if (memory.placement == Placement::kEager && offset != 0) {
    syn_.Fail(Unimplemented("part of an eager result as a recipe's own tensor"));
    return {};
  }
  const uint32_t tensor = memory.placement == Placement::kEager
                              ? memory.index
                              : memory_.Tensor(memory.placement, memory.index,
                                               {stored, sizes, RowMajorStrides(sizes), offset});
  bindings_.push_back({name, tensor, access == Access::kWrite});
  const Tensor bound = syn_.Persistent(name, dtype, sizes, section,
                                       static_cast<uint64_t>(offset * DTypeSize(stored)));
  if (memory.placement == Placement::kInput && graph_.inputs()[memory.index].is_weight) {
    syn_.SetWeight(bound);
  }
  return bound;
}

// Loads memory with any strides as a row-major tensor.
Tensor SegmentLowering::Load(const Memory& memory) {
  const ir::TensorType& type = memory.view.type;
  const DType dtype = MovedType(type.dtype);
  const StridedAccess access = AnalyseStrides(type);
  // The result of an eager op has no base from which an offset could count, because its address is
  // its own.
  const bool inside = memory.placement == Placement::kEager && memory.view.offset != 0;
  if (access.dense && !inside) {
    if (type.contiguous())
      return Bind(memory, dtype, type.sizes, memory.view.offset, Access::kRead);
    const Tensor physical = Bind(memory, dtype, access.physical, memory.view.offset, Access::kRead);
    const Tensor ordered = syn_.Transposed(physical, access.perm);
    return syn_.Expanded(syn_.Reshaped(ordered, access.unexpanded), type.sizes);
  }
  const int64_t skipped = inside ? memory.view.offset : 0;
  const Tensor flat = Bind(memory, dtype, {skipped + ir::SpanElements(type)},
                           memory.view.offset - skipped, Access::kRead);
  const Tensor value = syn_.Intermediate(dtype, type.sizes);
  const synStridedOpParams params = StridedParams(type.strides, skipped);
  syn_.Node("strided_view", {flat}, {value}, Params(params));
  return value;
}

// Writes a row-major tensor to memory whose strides are a dense permutation.
void SegmentLowering::StoreTo(const Tensor& value, const Memory& memory, std::string_view role) {
  const ir::TensorType& type = memory.view.type;
  const StridedAccess access = AnalyseStrides(type);
  if (!access.dense || access.unexpanded != type.sizes) {
    syn_.Fail(Unimplemented("writes to memory with strides ", ir::ToText(type)));
    return;
  }
  if (type.contiguous()) {
    syn_.Copy(value,
              Bind(memory, value.dtype, type.sizes, memory.view.offset, Access::kWrite, role));
    return;
  }
  Dims core, order(access.perm.size());
  for (size_t i = 0; i < access.perm.size(); ++i) order[access.perm[i]] = static_cast<int64_t>(i);
  for (int64_t size : type.sizes) {
    if (size != 1) core.push_back(size);
  }
  const Tensor target =
      Bind(memory, value.dtype, access.physical, memory.view.offset, Access::kWrite, role);
  const Tensor squeezed = syn_.Reshaped(value, core);
  if (std::is_sorted(order.begin(), order.end())) {
    syn_.Copy(squeezed, target);
  } else {
    syn_.Transpose(squeezed, target, order);
  }
}

}  // namespace hpu::compiler
