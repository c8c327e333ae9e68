#include "graph_compiler/import/importer.h"

#include <algorithm>

#include "graph_compiler/import/guid_table.h"
#include "graph_compiler/ir/access_algebra.h"

namespace hpu::graph_compiler {
namespace {

constexpr uint64_t kConstantAlignment = 64;

Shape PermutedStrides(const TensorDesc& tensor) {
  // permutation[i] is the dimension (FCD-first) that is the i-th fastest in memory.
  const size_t rank = tensor.sizes.size();
  Shape strides(rank);
  int64_t stride = 1;
  for (size_t i = 0; i < rank; ++i) {
    const size_t dim = tensor.permutation.empty() ? i : tensor.permutation[i];
    strides[rank - 1 - dim] = stride;
    stride *= std::max<int64_t>(static_cast<int64_t>(tensor.sizes[dim]), 1);
  }
  return strides;
}

// Returns the largest input that is dense and has the result's shape; the result takes its order.
const View* LayoutModel(const Shape& shape, const std::vector<View>& inputs) {
  for (const View& view : inputs) {
    if (view.shape == shape && IsDense(view.shape, view.strides)) return &view;
  }
  return nullptr;
}

}  // namespace

absl::Status CheckFactor(const View& view, const char* what) {
  if (IsFactorType(view.type)) return absl::OkStatus();
  return Unimplemented(what, " of ", TypeName(view.type),
                       " elements: the matrix engine multiplies f32, bf16 and f16");
}

Shape ToShape(const std::vector<uint64_t>& sizes) { return Shape(sizes.rbegin(), sizes.rend()); }

Importer::Importer(const GraphDesc& graph, const Phases& phases)
    : graph_(graph),
      phases_(phases),
      last_reading_phase_(graph.tensors.size(), 0),
      read_(graph.tensors.size(), false),
      written_(graph.tensors.size(), false) {
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const uint32_t tensor : graph.nodes[n].inputs) {
      if (tensor == kNoTensor) continue;
      read_[tensor] = true;
      last_reading_phase_[tensor] = std::max(last_reading_phase_[tensor], phases.of_node[n]);
    }
    for (const uint32_t tensor : graph.nodes[n].outputs) {
      if (tensor != kNoTensor) written_[tensor] = true;
    }
  }
}

bool Importer::HasInput(size_t i) const {
  return i < node_->inputs.size() && node_->inputs[i] != kNoTensor;
}
bool Importer::HasOutput(size_t i) const {
  return i < node_->outputs.size() && node_->outputs[i] != kNoTensor;
}

bool Importer::IsRead(size_t i) const {
  if (!HasOutput(i)) return false;
  const uint32_t tensor = node_->outputs[i];
  return read_[tensor] || graph_.tensors[tensor].placement == TensorPlacement::kPersistent;
}

absl::Status Importer::AddTensor(uint32_t index) {
  const TensorDesc& tensor = graph_.tensors[index];
  View view;
  if (tensor.type != DATA_TENSOR && tensor.type != DATA_TENSOR_DYNAMIC &&
      tensor.placement == TensorPlacement::kWorkspace) {
    views_.push_back(view);  // shape tensors carry sizes only
    homes_.push_back(view);
    return absl::OkStatus();
  }
  view.shape = ToShape(tensor.sizes);
  if (tensor.placement != TensorPlacement::kWorkspace) {
    ASSIGN_OR_RETURN(view.type, ToMemoryType(tensor.dtype));
    view.strides = PermutedStrides(tensor);
    view.value = static_cast<ValueId>(result_.values.size());
    Value value{tensor.name, view.type, view.shape, view.strides};
    value.bytes = static_cast<uint64_t>(NumElements(view.shape) * MemoryTypeSize(view.type));
    if (tensor.placement == TensorPlacement::kPersistent) {
      value.home = Home::kPersistent;
      value.tensor = index;
      value.section = tensor.section;
      value.byte_offset = tensor.section_offset;
      value.weight = tensor.weight && graph_.inference;
      result_.values.push_back(value);
    } else {
      if (tensor.host_data.size() < value.bytes) {
        return InvalidArgument("constant tensor '", tensor.name, "' has ", tensor.host_data.size(),
                               " bytes of host data, its sizes need ", value.bytes);
      }
      view = Constant(view.type, view.shape, tensor.host_data.data(), value.bytes);
    }
  }
  views_.push_back(view);
  homes_.push_back(view);
  return absl::OkStatus();
}

absl::StatusOr<LoopGraph> Importer::Run() {
  for (uint32_t i = 0; i < graph_.tensors.size(); ++i) RETURN_IF_ERROR(AddTensor(i));
  for (uint32_t phase = 0; phase < phases_.count; ++phase) RETURN_IF_ERROR(ImportPhase(phase));
  return std::move(result_);
}

absl::Status Importer::ImportPhase(uint32_t phase) {
  phase_ = phase;
  shared_copies_.clear();
  for (size_t n = 0; n < graph_.nodes.size(); ++n) {
    if (phases_.of_node[n] != phase) continue;
    const NodeDesc& node = graph_.nodes[n];
    RETURN_IF_ERROR_AT(ImportNode(node), "node '" + node.name + "' (" + node.guid + ")");
  }
  return absl::OkStatus();
}

absl::Status Importer::ResolveOutputTypes() {
  output_types_.clear();
  for (const uint32_t output : node_->outputs) {
    if (output == kNoTensor) {
      output_types_.push_back(MemoryType::kF32);
      continue;
    }
    const TensorDesc& tensor = graph_.tensors[output];
    if (!tensor.sizes_known) {
      return InvalidArgument("sizes of output '", tensor.name, "' are not known");
    }
    ASSIGN_OR_RETURN(const MemoryType type, ToMemoryType(tensor.dtype));
    output_types_.push_back(type);
  }
  return absl::OkStatus();
}

absl::Status Importer::ImportNode(const NodeDesc& node) {
  node_ = &node;
  const GuidRow* row = FindRow(node, &guid_base_);
  if (row == nullptr) return Unimplemented("unknown guid");
  RETURN_IF_ERROR(ResolveOutputTypes());
  return row->import_node(*this);
}

View Importer::NewValue(MemoryType type, const Shape& shape, const Shape* order_of) {
  Value value{node_->name, type, shape,
              order_of == nullptr ? RowMajorStrides(shape) : StridesInOrderOf(shape, *order_of)};
  value.bytes = static_cast<uint64_t>(NumElements(shape) * MemoryTypeSize(type));
  result_.values.push_back(value);
  return {static_cast<ValueId>(result_.values.size() - 1), type, shape, value.strides, 0};
}

View Importer::OutputValue(size_t i, const Shape* order_of) {
  const uint32_t tensor = node_->outputs[i];
  if (graph_.tensors[tensor].placement == TensorPlacement::kPersistent) {
    views_[tensor] = homes_[tensor];
    return homes_[tensor];
  }
  const View view = NewValue(OutputType(i), OutputShape(i), order_of);
  Bind(i, view);
  return view;
}

bool Importer::TakeInPlace(size_t i, const View& output) {
  const uint32_t tensor = node_->inputs[i];
  const View& input = views_[tensor];
  const Value& from = result_.values[input.value];
  Value& to = result_.values[output.value];
  const bool same_memory = from.home == Home::kPersistent && to.home == Home::kPersistent &&
                           from.section == to.section && from.section != kNoSection &&
                           from.byte_offset == to.byte_offset;
  const bool same_walk = input.type == output.type && input.shape == output.shape &&
                         input.strides == output.strides && input.offset == output.offset;
  if (!same_memory || !same_walk || from.tensor != tensor || written_[tensor]) return false;
  to.content = input.value;
  return true;
}

void Importer::Bind(size_t i, const View& view) {
  const uint32_t tensor = node_->outputs[i];
  if (graph_.tensors[tensor].placement == TensorPlacement::kPersistent) {
    MapTo(homes_[tensor], {view}, FirstArg);
    views_[tensor] = homes_[tensor];
    return;
  }
  views_[tensor] = view;
  if (!OutlivesMemory(i, view)) return;
  const View kept = NewValue(view.type, view.shape);
  MapTo(kept, {view}, FirstArg);
  result_.nodes.back().keep_apart = true;
  views_[tensor] = kept;
}

bool Importer::OutlivesMemory(size_t i, const View& view) const {
  if (last_reading_phase_[node_->outputs[i]] <= phase_) return false;
  const uint32_t tensor = result_.values[view.value].tensor;
  return tensor != kNoTensor && phases_.overwritten[tensor];
}

Access Importer::AccessOf(const View& view, const Shape& domain) {
  const View wide = BroadcastView(view, domain);
  return Access{wide.value, wide.type, wide.strides, wide.offset};
}

Access Importer::Iota(const Shape& strides, int64_t offset) {
  return Access{Operand(Operand::Kind::kIota, 0), MemoryType::kI64, strides, offset};
}

void Importer::AddContraction(decltype(Node::kind) kind, const View& out) {
  Node node;
  node.kind = std::move(kind);
  node.domain = out.shape;
  BodyBuilder body;
  body.Store(body.Accumulator(0, ScalarType::kF32), AccessOf(out, node.domain));
  node.body = body.Take();
  AddNode(std::move(node));
}

void Importer::AddNode(Node node) {
  if (node.name.empty()) node.name = node_->name;
  node.phase = phase_;
  if (Loop* loop = node.AsLoop()) {
    // Folding a single element is not a reduction.
    const auto first_reduced = node.domain.end() - static_cast<int64_t>(loop->reduced);
    if (NumElements(Shape(first_reduced, node.domain.end())) == 1) loop->reduced = 0;
  } else if (NumElements(node.domain) == 0) {
    return;
  }
  SimplifyBody(node.body);
  result_.nodes.push_back(std::move(node));
}

void Importer::MapTo(const View& destination, const std::vector<View>& inputs,
                     const MapFunction& function) {
  Node node;
  node.domain = destination.shape;
  BodyBuilder body;
  Args loads;
  for (const View& input : inputs) loads.push_back(body.Load(AccessOf(input, node.domain)));
  const E value = function(body, loads);
  body.Store(value, AccessOf(destination, node.domain));
  node.body = body.Take();
  AddNode(std::move(node));
}

View Importer::Map(MemoryType type, const Shape& shape, const std::vector<View>& inputs,
                   const MapFunction& function) {
  const View* model = LayoutModel(shape, inputs);
  const View result = NewValue(type, shape, model == nullptr ? nullptr : &model->strides);
  MapTo(result, inputs, function);
  return result;
}

void Importer::MapToOutput(size_t i, const std::vector<View>& inputs, const MapFunction& function) {
  const View* model = LayoutModel(OutputShape(i), inputs);
  const Shape order = model == nullptr ? Shape() : model->strides;
  MapTo(OutputValue(i, model == nullptr ? nullptr : &order), inputs, function);
}

View Importer::Reduce(ReduceKind kind, MemoryType type, const Shape& shape,
                      const std::vector<size_t>& dims, const std::vector<View>& inputs,
                      const MapFunction& function) {
  Shape kept = shape;
  for (const size_t dim : dims) kept[dim] = 1;
  const View result = NewValue(type, kept);
  ReduceTo(result, kind, shape, dims, inputs, function);
  return result;
}

void Importer::ReduceTo(const View& destination, ReduceKind kind, const Shape& shape,
                        const std::vector<size_t>& dims, const std::vector<View>& inputs,
                        const MapFunction& function) {
  Node node;
  BodyBuilder body;
  Args loads;
  for (const View& input : inputs) loads.push_back(body.Load(AccessOf(input, shape)));
  const E value = function(body, loads);
  Access out = AccessOf(destination, destination.shape);
  std::vector<size_t> order;
  std::vector<bool> is_reduced(shape.size(), false);
  for (const size_t dim : dims) {
    is_reduced[dim] = true;
    out.strides[dim] = 0;
  }
  body.Store(value, out);
  node.domain = shape;
  node.body = body.Take();
  for (const bool wanted : {false, true}) {
    for (size_t d = 0; d < shape.size(); ++d) {
      if (is_reduced[d] == wanted) order.push_back(d);
    }
  }
  PermuteDims(node, order);
  node.kind = Loop{.reduced = dims.size(), .reduce = kind};
  AddNode(std::move(node));
}

View Importer::Contiguous(const View& view) {
  if (view.strides == RowMajorStrides(view.shape)) return view;
  const View result = NewValue(view.type, view.shape);
  MapTo(result, {view}, FirstArg);
  return result;
}

View Importer::SharedContiguous(const View& view) {
  for (const SharedCopy& shared : shared_copies_) {
    if (shared.view == view) return shared.copy;
  }
  shared_copies_.push_back({view, Contiguous(view)});
  return shared_copies_.back().copy;
}

View Importer::Reshape(const View& view, const Shape& shape) {
  View result;
  if (ReshapeView(view, shape, &result)) return result;
  ReshapeView(Contiguous(view), shape, &result);
  return result;
}

View Importer::CastTo(const View& view, MemoryType type) {
  if (view.type == type) return view;
  return Map(type, view.shape, {view}, FirstArg);
}

View Importer::Constant(MemoryType type, const Shape& shape, const void* data, size_t bytes) {
  Bytes& constants = result_.constants;
  constants.resize((constants.size() + kConstantAlignment - 1) / kConstantAlignment *
                   kConstantAlignment);
  Value value{"constant", type, shape, RowMajorStrides(shape), Home::kConstant};
  value.byte_offset = constants.size();
  value.bytes = bytes;
  const auto* first = static_cast<const uint8_t*>(data);
  constants.insert(constants.end(), first, first + bytes);
  result_.values.push_back(value);
  return {static_cast<ValueId>(result_.values.size() - 1), type, shape, value.strides, 0};
}

}  // namespace hpu::graph_compiler
