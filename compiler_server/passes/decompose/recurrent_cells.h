// One step of an LSTM, of a GRU or of a plain recurrent layer, and its derivative. The formulas are
// those of torch.nn.LSTM, GRU and RNN. Values are matrices with one row per sequence.
#pragma once

#include <string_view>
#include <vector>

#include "compiler_server/passes/decompose/expression.h"

namespace hpu::compiler {

// The weights of one direction of one layer, in the type of its products. Weights are [gates * H,
// columns].
struct RecurrentWeights {
  Value* input = nullptr;
  Value* hidden = nullptr;
  Value* input_bias = nullptr;
  Value* hidden_bias = nullptr;
  Value* projection = nullptr;  // [P, H]: the state between steps is P wide (LSTM only)
};

// The sizes are [B, P] and, for the cell of an LSTM, [B, H].
struct RecurrentState {
  Value* hidden = nullptr;
  Value* cell = nullptr;
};

// The values of a step that its derivative needs.
struct RecurrentStep {
  RecurrentState before;
  RecurrentState after;
  std::vector<Expr> gates;
  Value* unprojected = nullptr;  // after.hidden before the projection, if there is one
};

// A gradient that is nullptr does not exist.
struct RecurrentGradients {
  Value* input = nullptr;    // of the input's contribution to the step, [B, gates * H]
  Value* product = nullptr;  // of the previous state's product, [B, gates * H]
  RecurrentState before;     // of the previous state, without the part through that product
};

struct RecurrentKind {
  std::string_view name;
  // `input` is the input's contribution to the step, [B, gates * H]. It includes the biases of both
  // sides, except for a bias that a cell adds itself.
  RecurrentStep (*forward)(Call& call, Value* input, const RecurrentState& before,
                           const RecurrentWeights& weights) = nullptr;
  // `after` has the gradient of step.unprojected, and that of the cell or nullptr.
  RecurrentGradients (*backward)(Call& call, const RecurrentStep& step, const RecurrentState& after,
                                 DType product) = nullptr;
  // If false, the bias of the hidden side is added inside the cell.
  bool adds_hidden_bias = true;
  bool has_cell_state = false;
};

// Returns the kind called "lstm", "gru", "rnn_tanh" or "rnn_relu", or nullptr for another name.
const RecurrentKind* FindRecurrentKind(std::string_view name);

// Returns x [rows, columns] times the transposed weight [n, columns], in the weight's type.
inline Value* RecurrentProduct(Call& call, Value* x, Value* weight) {
  return call.b.Matmul(call.b.Cast(x, weight->type.dtype), weight, false, true);
}

}  // namespace hpu::compiler
