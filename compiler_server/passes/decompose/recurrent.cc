// Rewrites LSTM, GRU and plain recurrent layers over whole sequences. One matrix product calculates
// the contribution of the inputs to all steps, then the steps follow one after the other. The
// gradients run the steps backwards, followed by one matrix product for each weight and one for the
// inputs of all steps. A call for gradients emits the steps of its forward again, and
// `canonicalize` merges the two.
#include <algorithm>

#include "compiler_server/passes/decompose/recurrent_cells.h"

namespace hpu::compiler {
namespace {

// The graph grows with the steps of all layers. A call with more steps than this runs eagerly as a
// whole.
constexpr int64_t kMostSteps = 4096;

// One direction of one layer.
struct Layer {
  const RecurrentKind& kind;
  RecurrentWeights weights;
  bool reverse = false;
};

// The values are two weights, then the biases, then the projection.
RecurrentWeights ReadWeights(std::span<Value* const> values) {
  RecurrentWeights weights{values[0], values[1]};
  if (values.size() > 3) {
    weights.input_bias = values[2];
    weights.hidden_bias = values[3];
  }
  if (values.size() % 2 == 1) weights.projection = values.back();
  return weights;
}

// Returns row i of [n, B, S] as [B, S].
Value* Row(Call& call, Value* x, int64_t i) {
  const Dims sizes = {x->type.sizes[1], x->type.sizes[2]};
  return call.b.Reshape(call.b.Slice(x, 0, i, i + 1), sizes);
}

Value* StackRows(Call& call, const std::vector<Value*>& rows) {
  std::vector<Value*> parts;
  for (Value* row : rows) {
    parts.push_back(call.b.Reshape(row, {1, row->type.sizes[0], row->type.sizes[1]}));
  }
  return call.b.Concat(std::move(parts), 0);
}

// Returns the steps over x [T, B, I] that begin with `state`, indexed by their place in x. It is
// empty if the call was refused.
std::vector<RecurrentStep> Steps(Call& call, const Layer& layer, Value* x, RecurrentState state) {
  const RecurrentWeights& weights = layer.weights;
  const Dims sizes = x->type.sizes;
  Value* rows = call.b.Reshape(x, {sizes[0] * sizes[1], sizes[2]});
  Value* inputs = RecurrentProduct(call, rows, weights.input);
  if (call.refused()) return {};
  const auto add = [&](Value* bias) {
    if (bias != nullptr) inputs = call.b.Binary(OpKind::kAdd, inputs, bias);
  };
  add(weights.input_bias);
  if (layer.kind.adds_hidden_bias) add(weights.hidden_bias);
  inputs = call.b.Reshape(inputs, {sizes[0], sizes[1], weights.input->type.sizes[0]});
  std::vector<RecurrentStep> steps(sizes[0]);
  for (int64_t i = 0; i < sizes[0] && !call.refused(); ++i) {
    RecurrentStep& step = steps[layer.reverse ? sizes[0] - 1 - i : i];
    step = layer.kind.forward(call, Row(call, inputs, &step - steps.data()), state, weights);
    state = step.after;
  }
  if (call.refused()) steps.clear();
  return steps;
}

const RecurrentState& LastState(const Layer& layer, const std::vector<RecurrentStep>& steps) {
  return layer.reverse ? steps.front().after : steps.back().after;
}

// Returns the outputs of all steps as [T, B, P].
Value* Outputs(Call& call, const std::vector<RecurrentStep>& steps) {
  std::vector<Value*> rows;
  for (const RecurrentStep& step : steps) rows.push_back(step.after.hidden);
  return StackRows(call, rows);
}

// (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first); hx is a
// tensor [layers * directions, B, P], or a list of two for an LSTM.
void Recurrent(Call& call, const RecurrentKind& kind) {
  Value* x = call.Tensor("input");
  std::vector<Value*> states =
      kind.has_cell_state ? call.Tensors("hx") : std::vector<Value*>{call.Tensor("hx")};
  const bool batch_first = call.Bool("batch_first");
  const int64_t directions = call.Bool("bidirectional") ? 2 : 1;
  const int64_t layers = call.Int("num_layers");
  if (call.Bool("train") && call.Float("dropout") != 0)
    return call.Refuse("dropout between layers");
  if (call.refused()) return;
  for (const Value* state : states) {
    if (state->type.rank() != 3 || x->type.rank() != 3) return call.Refuse("no batch dimension");
  }
  if (batch_first) x = call.b.Permute(x, {1, 0, 2});
  const int64_t steps = x->type.sizes[0] * directions * layers;
  if (steps > kMostSteps) {
    return call.Refuse(steps, " steps; a recipe takes at most ", kMostSteps);
  }
  const bool projected =
      kind.has_cell_state && states[0]->type.sizes[2] != states[1]->type.sizes[2];
  const std::vector<Value*> params = call.Tensors("params");
  const size_t each = 2 + (call.Bool("has_biases") ? 2 : 0) + (projected ? 1 : 0);
  if (params.size() != each * static_cast<size_t>(layers * directions) || steps == 0) {
    return call.Refuse(params.size(), " weights for ", steps, " steps");
  }
  std::vector<Value*> hidden;
  std::vector<Value*> cells;
  for (int64_t place = 0; place < layers; ++place) {
    std::vector<Value*> outputs;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const int64_t i = place * directions + direction;
      const Layer layer{kind, ReadWeights(std::span(params).subspan(each * i, each)),
                        direction == 1};
      RecurrentState state{Row(call, states[0], i)};
      if (kind.has_cell_state) state.cell = Row(call, states[1], i);
      const std::vector<RecurrentStep> made = Steps(call, layer, x, state);
      if (made.empty()) return;
      outputs.push_back(Outputs(call, made));
      hidden.push_back(LastState(layer, made).hidden);
      cells.push_back(LastState(layer, made).cell);
    }
    x = call.b.Concat(std::move(outputs), 2);
  }
  std::vector<Value*> results = {batch_first ? call.b.Permute(x, {1, 0, 2}) : x,
                                 StackRows(call, hidden)};
  if (kind.has_cell_state) results.push_back(StackRows(call, cells));
  call.Return(std::move(results));
}

// The arguments of hpu::recurrent_layer and of its backward: one direction of one layer.
struct LayerCall {
  Layer layer;
  Value* input;
  RecurrentState state;
};

bool HasRank(const Value* x, int64_t rank) { return x == nullptr || x->type.rank() == rank; }

// The weights are two matrices, with a third one for a projection. Those in between are biases.
bool HaveRanks(std::span<Value* const> state, const RecurrentWeights& weights) {
  return std::ranges::all_of(state, [](const Value* x) { return HasRank(x, 2); }) &&
         HasRank(weights.input, 2) && HasRank(weights.hidden, 2) &&
         HasRank(weights.projection, 2) && HasRank(weights.input_bias, 1) &&
         HasRank(weights.hidden_bias, 1);
}

std::optional<LayerCall> ReadLayer(Call& call) {
  const RecurrentKind* kind = FindRecurrentKind(call.Text("kind"));
  Value* input = call.Tensor("input");
  const std::vector<Value*> state = call.Tensors("state");
  const std::vector<Value*> weights = call.Tensors("weights");
  const bool reverse = call.Bool("reverse");
  if (call.refused()) return std::nullopt;
  if (kind == nullptr || state.size() != (kind->has_cell_state ? 2 : 1) || weights.size() < 2 ||
      input->type.rank() != 3 || input->type.elements() == 0 ||
      !HaveRanks(state, ReadWeights(weights))) {
    call.Refuse("no recurrent layer of a kind that is known");
    return std::nullopt;
  }
  if (input->type.sizes[0] > kMostSteps) {
    call.Refuse(input->type.sizes[0], " steps; a recipe takes at most ", kMostSteps);
    return std::nullopt;
  }
  return LayerCall{{*kind, ReadWeights(weights), reverse},
                   input,
                   {state[0], kind->has_cell_state ? state[1] : nullptr}};
}

// recurrent_layer(kind, input, state, weights, reverse) returns the output and the last state.
void RecurrentLayer(Call& call) {
  const std::optional<LayerCall> given = ReadLayer(call);
  if (!given.has_value()) return;
  const std::vector<RecurrentStep> steps = Steps(call, given->layer, given->input, given->state);
  if (steps.empty()) return;
  const RecurrentState& last = LastState(given->layer, steps);
  std::vector<Value*> results = {Outputs(call, steps), last.hidden};
  if (given->layer.kind.has_cell_state) results.push_back(last.cell);
  call.Return(std::move(results));
}

// Returns the sum of the values that are not nullptr, or nullptr if all are.
Value* AddUp(Call& call, std::initializer_list<Value*> values) {
  std::optional<Expr> sum;
  for (Value* value : values) {
    if (value == nullptr) continue;
    const Expr term = In(call, value);
    sum = sum.has_value() ? *sum + term : term;
  }
  return sum.has_value() ? sum->value : nullptr;
}

// The gradients of all steps; `inputs` and `products` are indexed by place in the input.
struct LayerGradients {
  std::vector<Value*> inputs, products;        // as in RecurrentGradients
  std::vector<Value*> projected, unprojected;  // a projection's gradient and its operand
  RecurrentState state;                        // of the first state; nullptr if none
};

// `grads` are the gradients of the output and of the last state.
LayerGradients StepsBackwards(Call& call, const LayerCall& given,
                              const std::vector<RecurrentStep>& steps,
                              const std::vector<Value*>& grads) {
  const auto& [layer, input, first] = given;
  const RecurrentWeights& weights = layer.weights;
  const DType product = weights.hidden->type.dtype;
  const size_t count = steps.size();
  LayerGradients result;
  result.inputs.resize(count);
  result.products.resize(count);
  RecurrentState after{grads[1], layer.kind.has_cell_state ? grads[2] : nullptr};
  for (size_t i = count; i-- > 0;) {
    const size_t place = layer.reverse ? count - 1 - i : i;
    const RecurrentStep& step = steps[place];
    Value* of_output =
        grads[0] == nullptr ? nullptr : Row(call, grads[0], static_cast<int64_t>(place));
    after.hidden = AddUp(call, {after.hidden, of_output});
    if (after.hidden == nullptr) {
      after.hidden = call.b.Full(0, DType::kF32, step.after.hidden->type.sizes);
    }
    if (weights.projection != nullptr) {
      result.projected.push_back(call.b.Cast(after.hidden, product));
      result.unprojected.push_back(call.b.Cast(step.unprojected, product));
      after.hidden = call.b.Matmul(result.projected.back(), weights.projection);
    }
    const RecurrentGradients found = layer.kind.backward(call, step, after, product);
    result.inputs[place] = found.input;
    result.products[place] = found.product;
    after.hidden = AddUp(call, {call.b.Matmul(found.product, weights.hidden), found.before.hidden});
    after.cell = found.before.cell;
  }
  result.state = after;
  return result;
}

// Returns the rows joined to [n * B, S].
Value* JoinRows(Call& call, std::vector<Value*> rows) { return call.b.Concat(std::move(rows), 0); }

// recurrent_layer_backward(kind, grads, input, state, weights, reverse) returns the gradients of
// the input, the state and the weights.
void RecurrentLayerBackward(Call& call) {
  const std::optional<LayerCall> given = ReadLayer(call);
  const std::vector<Value*> grads = call.OptionalTensors("grads");
  if (!given.has_value()) return;
  const auto& [layer, input, state] = *given;
  if (grads.size() != (layer.kind.has_cell_state ? 3 : 2)) {
    return call.Refuse(grads.size(), " gradients");
  }
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!HasRank(grads[i], i == 0 ? 3 : 2)) return call.Refuse("gradient ", i, " is of no result");
  }
  const std::vector<RecurrentStep> steps = Steps(call, layer, input, state);
  if (steps.empty()) return;
  LayerGradients found = StepsBackwards(call, *given, steps, grads);
  const RecurrentWeights& weights = layer.weights;
  const DType product = weights.hidden->type.dtype;
  const Dims sizes = input->type.sizes;
  Value* rows = call.b.Cast(call.b.Reshape(input, {sizes[0] * sizes[1], sizes[2]}), product);
  std::vector<Value*> before;
  for (const RecurrentStep& step : steps)
    before.push_back(call.b.Cast(step.before.hidden, product));
  Value* of_inputs = JoinRows(call, std::move(found.inputs));
  Value* of_products = JoinRows(call, std::move(found.products));
  const auto transposed = [&](Value* x, Value* y) { return call.b.Matmul(x, y, true, false); };
  const auto column_sums = [&](Value* x) { return Sum(In(call, x), {0}, false).value; };
  std::vector<Value*> results = {call.b.Reshape(call.b.Matmul(of_inputs, weights.input), sizes),
                                 found.state.hidden};
  if (layer.kind.has_cell_state) results.push_back(found.state.cell);
  results.push_back(transposed(of_inputs, rows));
  results.push_back(transposed(of_products, JoinRows(call, std::move(before))));
  if (weights.input_bias != nullptr) {
    results.push_back(column_sums(of_inputs));
    results.push_back(column_sums(of_products));
  }
  if (weights.projection != nullptr) {
    results.push_back(transposed(JoinRows(call, std::move(found.projected)),
                                 JoinRows(call, std::move(found.unprojected))));
  }
  for (size_t i = 0; i < results.size() && i < call.result_count(); ++i) {
    results[i] = call.b.Cast(results[i], call.type(i).dtype);
  }
  call.Return(std::move(results));
}

void Lstm(Call& call) { Recurrent(call, *FindRecurrentKind("lstm")); }
void Gru(Call& call) { Recurrent(call, *FindRecurrentKind("gru")); }
void RnnTanh(Call& call) { Recurrent(call, *FindRecurrentKind("rnn_tanh")); }
void RnnRelu(Call& call) { Recurrent(call, *FindRecurrentKind("rnn_relu")); }

constexpr HandlerRow kRecurrentRows[] = {
    {"aten.gru.input", Gru},
    {"aten.lstm.input", Lstm},
    {"aten.rnn_relu.input", RnnRelu},
    {"aten.rnn_tanh.input", RnnTanh},
    {"hpu.recurrent_layer.default", RecurrentLayer},
    {"hpu.recurrent_layer_backward.default", RecurrentLayerBackward},
};

}  // namespace

std::span<const HandlerRow> RecurrentRows() { return kRecurrentRows; }

}  // namespace hpu::compiler
