#include "compiler_server/ir/graph.h"

#include <algorithm>

#include "base/status.h"

namespace hpu::ir {
namespace {

template <typename T>
const T& Require(const Attrs& attrs, AttrKey key) {
  const Attr* attr = attrs.Find(key);
  HPU_CHECK(attr != nullptr && std::holds_alternative<T>(*attr), "attribute missing");
  return std::get<T>(*attr);
}

}  // namespace

Attrs::Attrs(std::initializer_list<std::pair<AttrKey, Attr>> items) {
  for (const auto& [key, value] : items) Set(key, value);
}

void Attrs::Set(AttrKey key, Attr value) {
  auto place =
      std::lower_bound(items_.begin(), items_.end(), key,
                       [](const auto& item, AttrKey wanted) { return item.first < wanted; });
  if (place != items_.end() && place->first == key) {
    place->second = std::move(value);
  } else {
    items_.emplace(place, key, std::move(value));
  }
}

const Attr* Attrs::Find(AttrKey key) const {
  for (const auto& [item_key, value] : items_) {
    if (item_key == key) return &value;
  }
  return nullptr;
}

int64_t Node::Int(AttrKey key) const { return Require<int64_t>(attrs, key); }
double Node::Float(AttrKey key) const { return Require<double>(attrs, key); }
bool Node::Bool(AttrKey key) const { return Require<bool>(attrs, key); }
const std::string& Node::Text(AttrKey key) const { return Require<std::string>(attrs, key); }
const Dims& Node::Ints(AttrKey key) const { return Require<Dims>(attrs, key); }

bool IsView(const Node& node) { return Has(node.op, OpFlag::kView); }

Graph::Graph(std::string name) : name_(std::move(name)), sources_{""} {}

Value* Graph::NewValue(ValueKind kind, uint32_t index, TensorType type) {
  Value& value = values_.emplace_back();
  value.kind = kind;
  value.id = static_cast<uint32_t>(values_.size() - 1);
  value.index = index;
  value.type = std::move(type);
  return &value;
}

Value* Graph::AddInput(std::string name, TensorType type, bool on_cpu, bool is_weight,
                       bool is_trained) {
  Value* value =
      NewValue(ValueKind::kInput, static_cast<uint32_t>(inputs_.size()), std::move(type));
  inputs_.push_back({value, std::move(name), on_cpu, is_weight, is_trained});
  return value;
}

void Graph::AddScalarInput(std::string name) {
  inputs_.push_back({nullptr, std::move(name), false});
}

Graph::RandomState Graph::AddRandomState() {
  const size_t given = caller_inputs();
  if (given == inputs_.size()) {
    std::string prefix = "rng_";  // must differ from the caller's names
    const auto taken = [&](const Input& input) { return input.name.starts_with(prefix); };
    while (std::any_of(inputs_.begin(), inputs_.end(), taken)) prefix += '_';
    AddInput(prefix + "seed", Contiguous(DType::kI64, {}));
    AddInput(prefix + "offset", Contiguous(DType::kI64, {}));
    inputs_[given].role = InputRole::kSeed;
    inputs_[given + 1].role = InputRole::kOffset;
  }
  return {inputs_[given].value, inputs_[given + 1].value};
}

size_t Graph::caller_inputs() const {
  const auto first = std::find_if(inputs_.begin(), inputs_.end(), [](const Input& input) {
    return input.role != InputRole::kCaller;
  });
  return static_cast<size_t>(first - inputs_.begin());
}

Value* Graph::AddConstant(TensorType type, Bytes data) {
  Value* value =
      NewValue(ValueKind::kConstant, static_cast<uint32_t>(constants_.size()), std::move(type));
  constants_.push_back({value, std::move(data)});
  return value;
}

Node* Graph::CreateNode(OpKind op, std::vector<Value*> operands, Attrs attrs,
                        std::vector<TensorType> result_types) {
  Node& node = nodes_.emplace_back();
  node.op = op;
  node.operands = std::move(operands);
  node.attrs = std::move(attrs);
  node.results.reserve(result_types.size());
  for (TensorType& type : result_types) {
    Value* value =
        NewValue(ValueKind::kResult, static_cast<uint32_t>(node.results.size()), std::move(type));
    value->producer = &node;
    node.results.push_back(value);
  }
  return &node;
}

Node* Graph::AddNode(OpKind op, std::vector<Value*> operands, Attrs attrs,
                     std::vector<TensorType> result_types) {
  order_.push_back(CreateNode(op, std::move(operands), std::move(attrs), std::move(result_types)));
  return order_.back();
}

uint32_t Graph::AddStorage(Storage storage) {
  storages_.push_back(std::move(storage));
  return static_cast<uint32_t>(storages_.size() - 1);
}

void Graph::ReturnValue(Value* value) {
  Output output;
  output.kind = Output::Kind::kTensor;
  output.index = AddStorage(value);
  output.view.type = value->type;
  AddOutput(std::move(output));
}

std::vector<uint32_t> Graph::CountUses() const {
  std::vector<uint32_t> uses(values_.size(), 0);
  for (const Node* node : order_) {
    for (const Value* operand : node->operands) {
      if (operand != nullptr) ++uses[operand->id];
    }
  }
  for (const Storage& storage : storages_) ++uses[storage.value->id];
  for (const Mutation& mutation : mutations_) ++uses[mutation.value->id];
  return uses;
}

void Graph::DropUnusedConstants() {
  const std::vector<uint32_t> uses = CountUses();
  std::erase_if(constants_, [&](const Constant& item) { return uses[item.value->id] == 0; });
  for (size_t i = 0; i < constants_.size(); ++i) {
    constants_[i].value->index = static_cast<uint32_t>(i);
  }
}

uint32_t Graph::AddSource(std::string_view source) {
  if (sources_.back() != source) sources_.emplace_back(source);
  return static_cast<uint32_t>(sources_.size() - 1);
}

}  // namespace hpu::ir
