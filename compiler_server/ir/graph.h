// The IR graph: values, nodes in execution order, inputs, outputs and mutations.
//
// Ownership: a Graph owns its nodes and values. Pointers stay valid for the lifetime of the graph,
// even after a node has left the order. In the order of the nodes every operand is defined before
// it is used. There are no use lists: passes walk the order once and rewrite (ir/rewrite.h), or
// count uses once. Not thread-safe; different graphs are independent.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "compiler_server/ir/ops.h"
#include "compiler_server/ir/types.h"
#include "graph/alias_form.h"
#include "graph/argument.h"

namespace hpu::ir {

struct Node;

enum class ValueKind : uint8_t { kInput, kConstant, kResult };

struct Value {
  ValueKind kind = ValueKind::kResult;
  uint32_t id = 0;           // dense over the graph, in order of creation; never reused
  uint32_t index = 0;        // which input, which constant, or which result of `producer`
  Node* producer = nullptr;  // kResult only
  TensorType type;
  Value* replacement = nullptr;  // only during a rewrite (ir/rewrite.h); nullptr otherwise
};

using Attr = std::variant<int64_t, double, bool, std::string, Dims>;

// The attributes of one node: few, sorted by key.
class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<AttrKey, Attr>> items);
  void Set(AttrKey key, Attr value);
  const Attr* Find(AttrKey key) const;  // nullptr if absent
  const std::vector<std::pair<AttrKey, Attr>>& items() const { return items_; }
  bool operator==(const Attrs&) const = default;

 private:
  std::vector<std::pair<AttrKey, Attr>> items_;
};

// The captured call behind an `aten` node, with all arguments of its schema in order, so that it
// can run eagerly. A TensorArgument holds an index into Node::operands.
struct AtenCall {
  std::string target;  // "aten.addmm.default"
  std::vector<std::pair<std::string, Argument>> args;
  // The strides of each operand when the call was captured. Values of the IR are row-major, and the
  // result of a call that runs eagerly may depend on the layout of its operands.
  std::vector<Dims> strides;
  bool draws_random = false;
  std::string reason;  // why no recipe holds it; set by passes/decompose
};

struct Node {
  OpKind op = OpKind::kAten;
  std::vector<Value*> operands;  // nullptr = an optional operand that is absent
  std::vector<Value*> results;
  Attrs attrs;
  std::unique_ptr<AtenCall> aten;  // kAten only
  uint32_t source = 0;             // index into Graph::sources()
  uint32_t origin = 0;  // 1-based number of the captured ATen call that it comes from; 0 = none

  // Attributes that the op table requires. The verifier has checked that they exist.
  int64_t Int(AttrKey key) const;
  double Float(AttrKey key) const;
  bool Bool(AttrKey key) const;
  const std::string& Text(AttrKey key) const;
  const Dims& Ints(AttrKey key) const;

  Value* result() const { return results[0]; }
  const TensorType& type() const { return results[0]->type; }
};

// True for ops whose result is a rearrangement of the operand that needs no arithmetic and can be
// repeated wherever it is read: permute, slice, expand, reshape, as_strided.
bool IsView(const Node& node);

// The last two inputs of a graph that draws random numbers are the state of the generator.
enum class InputRole : uint8_t { kCaller, kSeed, kOffset };

struct Input {
  Value* value = nullptr;  // nullptr: a scalar that was specialised into the graph
  std::string name;        // "%name" in text form; unique
  bool on_cpu = false;
  bool is_weight = false;   // CapturedInput::is_weight
  bool is_trained = false;  // CapturedInput::is_trained
  InputRole role = InputRole::kCaller;
  bool donated = false;  // nobody else holds its memory, so the last reader may free it
  // The captured graph computes with a copy of it or of a part of it. The caller may then write to
  // the input before the backward, as the caller of the eager program may.
  bool copied = false;
};

struct Constant {
  Value* value = nullptr;
  Bytes data;  // little endian, row-major
};

// A region of some memory: element (i...) is at offset + sum(i_k * strides_k).
struct View {
  TensorType type;
  int64_t offset = 0;  // elements from the first element of the memory

  bool operator==(const View&) const = default;
};

// A buffer that the graph fills: element (i...) of `value` is at sum(i_k * type.strides[k]). It is
// dense, and row-major after the pipeline. Outputs that share a storage share memory, as they do in
// eager PyTorch; different storages never do, even if they hold the same value.
struct Storage {
  Value* value = nullptr;
  TensorType type;
};

// One output of the graph. Fresh tensors are views of storages.
struct Output {
  enum class Kind : uint8_t { kTensor, kInput, kNone, kInt, kFloat, kBool };
  Kind kind = Kind::kNone;
  uint32_t index = 0;  // kTensor: storage; kInput: input whose memory is returned
  View view;           // kTensor, kInput (offset from the input's first element)
  // kInput: how the caller gets it. kNone: the input itself if the view is all of it, else a view.
  AliasForm form = AliasForm::kNone;
  int64_t int_value = 0;
  double float_value = 0;
};

// Belongs to a training graph. Input `tangent` is the gradient of what `output` returns, and output
// `gradient` is the gradient of `input`.
struct Tangent {
  uint32_t output = 0;
  uint32_t tangent = 0;
};
struct Gradient {
  uint32_t input = 0;
  uint32_t gradient = 0;
};

// Writes `value` into a region of an input's memory after everything in the graph has read it.
// Mutations happen in order; a later one may overwrite an earlier one.
struct Mutation {
  uint32_t input = 0;
  View view;  // offset from the input's first element
  Value* value = nullptr;
};

class Graph {
 public:
  explicit Graph(std::string name);
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;

  const std::string& name() const { return name_; }

  Value* AddInput(std::string name, TensorType type, bool on_cpu = false, bool is_weight = false,
                  bool is_trained = false);
  void AddScalarInput(std::string name);
  // The inputs for the generator's state, both i64[]. They are made once, after all other inputs.
  struct RandomState {
    Value* seed = nullptr;
    Value* offset = nullptr;
  };
  RandomState AddRandomState();
  void SetRole(InputRole role) { inputs_.back().role = role; }  // of the last input
  void Donate(size_t input) { inputs_[input].donated = true; }  // the input must be a tensor
  void MarkCopied(size_t input) { inputs_[input].copied = true; }
  // The number of inputs that the caller gives, which are all but the generator's state.
  size_t caller_inputs() const;
  Value* AddConstant(TensorType type, Bytes data);  // data.size() == type.bytes(), row-major
  // Appends to the order. The caller is responsible for the result types; ir/build.h infers them.
  Node* AddNode(OpKind op, std::vector<Value*> operands, Attrs attrs,
                std::vector<TensorType> result_types);
  // Like AddNode, but leaves the node out of the order: a rewrite places it.
  Node* CreateNode(OpKind op, std::vector<Value*> operands, Attrs attrs,
                   std::vector<TensorType> result_types);
  void SetOrder(std::vector<Node*> order) { order_ = std::move(order); }

  uint32_t AddStorage(Value* value) { return AddStorage({value, value->type}); }
  uint32_t AddStorage(Storage storage);
  void AddOutput(Output output) { outputs_.push_back(std::move(output)); }
  void AddMutation(Mutation mutation) { mutations_.push_back(std::move(mutation)); }
  // Adds a storage for the value alone and returns it whole.
  void ReturnValue(Value* value);

  const std::vector<Node*>& nodes() const { return order_; }
  const std::vector<Input>& inputs() const { return inputs_; }
  const std::vector<Constant>& constants() const { return constants_; }
  std::vector<Storage>& storages() { return storages_; }
  const std::vector<Storage>& storages() const { return storages_; }
  std::vector<Output>& outputs() { return outputs_; }
  const std::vector<Output>& outputs() const { return outputs_; }
  std::vector<Mutation>& mutations() { return mutations_; }
  const std::vector<Mutation>& mutations() const { return mutations_; }

  // All value ids are below this number, which is the size of side tables.
  uint32_t value_count() const { return static_cast<uint32_t>(values_.size()); }
  // Removes constants without uses from constants(). The others keep their order.
  void DropUnusedConstants();
  // The number of uses by nodes, storages and mutations, by value id.
  std::vector<uint32_t> CountUses() const;

  uint32_t AddSource(std::string_view source);  // 0 = none
  const std::string& source(const Node& node) const { return sources_[node.source]; }
  // The number of ATen calls in the captured graph. Node::origin is at most this.
  uint32_t captured_nodes = 0;
  // The number of blocks of the random stream (base/philox.h) that a call takes, from its offset
  // on.
  uint64_t draws = 0;
  // Either both are empty or neither. Passes keep inputs and outputs, so the numbers stay valid.
  std::vector<Tangent> tangents;
  std::vector<Gradient> gradients;

 private:
  Value* NewValue(ValueKind kind, uint32_t index, TensorType type);

  std::string name_;
  std::deque<Value> values_;
  std::deque<Node> nodes_;
  std::vector<Node*> order_;
  std::vector<Input> inputs_;
  std::vector<Constant> constants_;
  std::vector<Storage> storages_;
  std::vector<Output> outputs_;
  std::vector<Mutation> mutations_;
  std::deque<std::string> sources_;
};

}  // namespace hpu::ir
