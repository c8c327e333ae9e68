// LSTM, GRU and plain recurrent layers over whole sequences: one matrix product for what the inputs
// give to all steps, then the steps one after the other. Formulas: torch.nn.LSTM, GRU, RNN.
#include "compiler_server/passes/decompose/call.h"

namespace hpu::compiler {
namespace {

// The graph grows with the steps of all layers; beyond this the whole call runs eagerly.
constexpr int64_t kMostSteps = 4096;

// One direction of one layer. Weights are [gates * H, columns].
struct Weights {
  Value* input;
  Value* hidden;
  Value* input_bias = nullptr;
  Value* hidden_bias = nullptr;
  Value* projection = nullptr;  // [P, H]: the state that goes around is P wide (LSTM only)
};

// Sizes [B, P] and, of an LSTM, [B, H].
struct State {
  Value* hidden;
  Value* cell = nullptr;
};

// `input`: [B, gates * H], what the step's input gives, biases of both sides included but for what
// a cell wants apart.
using Cell = State (*)(Call& call, Value* input, const State& state, const Weights& weights);

struct Kind {
  Cell cell;
  // False: the hidden side's bias is added inside the cell.
  bool adds_hidden_bias = true;
  bool has_cell_state = false;
};

Value* Add(Call& call, Value* x, Value* y) { return call.b.Binary(OpKind::kAdd, x, y); }
Value* Mul(Call& call, Value* x, Value* y) { return call.b.Binary(OpKind::kMul, x, y); }

// x [rows, columns] * weight [n, columns] transposed
Value* Linear(Call& call, Value* x, Value* weight) { return call.b.Matmul(x, weight, false, true); }

// Gate `index` of [B, gates * H].
Value* Gate(Call& call, Value* gates, int64_t index, int64_t size) {
  return call.b.Slice(gates, 1, index * size, (index + 1) * size);
}

State LstmCell(Call& call, Value* input, const State& state, const Weights& weights) {
  const int64_t size = state.cell->type.sizes[1];
  Value* gates = Add(call, Linear(call, state.hidden, weights.hidden), input);
  Value* in = call.b.Unary(OpKind::kSigmoid, Gate(call, gates, 0, size));
  Value* forget = call.b.Unary(OpKind::kSigmoid, Gate(call, gates, 1, size));
  Value* candidate = call.b.Unary(OpKind::kTanh, Gate(call, gates, 2, size));
  Value* out = call.b.Unary(OpKind::kSigmoid, Gate(call, gates, 3, size));
  Value* cell = Add(call, Mul(call, forget, state.cell), Mul(call, in, candidate));
  Value* hidden = Mul(call, out, call.b.Unary(OpKind::kTanh, cell));
  if (weights.projection != nullptr) hidden = Linear(call, hidden, weights.projection);
  return {hidden, cell};
}

State GruCell(Call& call, Value* input, const State& state, const Weights& weights) {
  const int64_t size = state.hidden->type.sizes[1];
  Value* hidden = Linear(call, state.hidden, weights.hidden);
  if (weights.hidden_bias != nullptr) hidden = Add(call, hidden, weights.hidden_bias);
  const auto sum = [&](int64_t gate) {
    return Add(call, Gate(call, input, gate, size), Gate(call, hidden, gate, size));
  };
  Value* reset = call.b.Unary(OpKind::kSigmoid, sum(0));
  Value* update = call.b.Unary(OpKind::kSigmoid, sum(1));
  Value* candidate = call.b.Unary(
      OpKind::kTanh,
      Add(call, Gate(call, input, 2, size), Mul(call, reset, Gate(call, hidden, 2, size))));
  Value* kept = call.b.Binary(OpKind::kSub, state.hidden, candidate);
  return {Add(call, candidate, Mul(call, update, kept))};
}

template <OpKind activation>
State RnnCell(Call& call, Value* input, const State& state, const Weights& weights) {
  Value* sum = Add(call, Linear(call, state.hidden, weights.hidden), input);
  return {call.b.Unary(activation, sum)};
}

// The tensors of `params` in PyTorch's order: layers outermost, then directions; of each the
// weights, then the biases, then the projection.
std::vector<Weights> ReadWeights(Call& call, bool has_biases, bool projected) {
  const std::vector<Value*> all = call.Tensors("params");
  const size_t each = 2 + (has_biases ? 2 : 0) + (projected ? 1 : 0);
  std::vector<Weights> weights;
  for (size_t i = 0; i + each <= all.size(); i += each) {
    Weights one{all[i], all[i + 1]};
    if (has_biases) {
      one.input_bias = all[i + 2];
      one.hidden_bias = all[i + 3];
    }
    if (projected) one.projection = all[i + each - 1];
    weights.push_back(one);
  }
  return weights;
}

// [n, B, S] -> row i as [B, S]
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

// One direction of one layer over x [T, B, I]; *state becomes the last one. The result is [T, B,
// P].
Value* Run(Call& call, const Kind& kind, Value* x, const Weights& weights, bool backwards,
           State* state) {
  const Dims sizes = x->type.sizes;
  Value* inputs = Linear(call, call.b.Reshape(x, {sizes[0] * sizes[1], sizes[2]}), weights.input);
  if (weights.input_bias != nullptr) inputs = Add(call, inputs, weights.input_bias);
  if (weights.hidden_bias != nullptr && kind.adds_hidden_bias) {
    inputs = Add(call, inputs, weights.hidden_bias);
  }
  inputs = call.b.Reshape(inputs, {sizes[0], sizes[1], weights.input->type.sizes[0]});
  std::vector<Value*> outputs(sizes[0]);
  for (int64_t i = 0; i < sizes[0] && !call.refused(); ++i) {
    const int64_t step = backwards ? sizes[0] - 1 - i : i;
    *state = kind.cell(call, Row(call, inputs, step), *state, weights);
    outputs[step] = state->hidden;
  }
  return call.refused() ? x : StackRows(call, outputs);
}

// (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first); hx: a
// tensor [layers * directions, B, P], of an LSTM a list of two.
void Recurrent(Call& call, const Kind& kind) {
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
  const std::vector<Weights> weights = ReadWeights(call, call.Bool("has_biases"), projected);
  if (static_cast<int64_t>(weights.size()) != layers * directions || steps == 0) {
    return call.Refuse(weights.size(), " sets of weights for ", steps, " steps");
  }
  std::vector<Value*> hidden;
  std::vector<Value*> cells;
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::vector<Value*> outputs;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const int64_t i = layer * directions + direction;
      State state{Row(call, states[0], i)};
      if (kind.has_cell_state) state.cell = Row(call, states[1], i);
      outputs.push_back(Run(call, kind, x, weights[i], direction == 1, &state));
      if (call.refused()) return;
      hidden.push_back(state.hidden);
      cells.push_back(state.cell);
    }
    x = call.b.Concat(std::move(outputs), 2);
  }
  std::vector<Value*> results = {batch_first ? call.b.Permute(x, {1, 0, 2}) : x,
                                 StackRows(call, hidden)};
  if (kind.has_cell_state) results.push_back(StackRows(call, cells));
  call.Return(std::move(results));
}

void Lstm(Call& call) { Recurrent(call, {.cell = LstmCell, .has_cell_state = true}); }
void Gru(Call& call) { Recurrent(call, {.cell = GruCell, .adds_hidden_bias = false}); }
void RnnTanh(Call& call) { Recurrent(call, {.cell = RnnCell<OpKind::kTanh>}); }
void RnnRelu(Call& call) { Recurrent(call, {.cell = RnnCell<OpKind::kRelu>}); }

constexpr HandlerRow kRows[] = {
    {"aten.gru.input", Gru},
    {"aten.lstm.input", Lstm},
    {"aten.rnn_relu.input", RnnRelu},
    {"aten.rnn_tanh.input", RnnTanh},
};

}  // namespace

std::span<const HandlerRow> RecurrentRows() { return kRows; }

}  // namespace hpu::compiler
