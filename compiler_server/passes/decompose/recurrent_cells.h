// What a step of an LSTM, a GRU or a plain recurrent layer computes, and its derivative. Formulas:
// torch.nn.LSTM, GRU, RNN. Values are matrices of a row per sequence.
#pragma once

#include <string_view>
#include <vector>

#include "compiler_server/passes/decompose/expression.h"

namespace hpu::compiler {

// One direction of one layer, in the type that its products have. Weights are [gates * H, columns].
struct RecurrentWeights {
  Value* input = nullptr;
  Value* hidden = nullptr;
  Value* input_bias = nullptr;
  Value* hidden_bias = nullptr;
  Value* projection = nullptr;  // [P, H]: the state that goes around is P wide (LSTM only)
};

// Sizes [B, P] and, of an LSTM, [B, H].
struct RecurrentState {
  Value* hidden = nullptr;
  Value* cell = nullptr;
};

// A step, as its derivative needs it.
struct RecurrentStep {
  RecurrentState before;
  RecurrentState after;
  std::vector<Expr> gates;
  Value* unprojected = nullptr;  // what after.hidden is the projection of, or is
};

// nullptr: none.
struct RecurrentGradients {
  Value* input = nullptr;    // of what the step's input gives, [B, gates * H]
  Value* product = nullptr;  // of the product of the state before, [B, gates * H]
  RecurrentState before;     // of the state before, but for what goes through that product
};

struct RecurrentKind {
  std::string_view name;
  // `input`: [B, gates * H], what the step's input gives, biases of both sides included but for
  // what a cell wants apart.
  RecurrentStep (*forward)(Call& call, Value* input, const RecurrentState& before,
                           const RecurrentWeights& weights) = nullptr;
  // `after`: gradients of step.unprojected, and of the cell or nullptr.
  RecurrentGradients (*backward)(Call& call, const RecurrentStep& step, const RecurrentState& after,
                                 DType product) = nullptr;
  // False: the hidden side's bias is added inside the cell.
  bool adds_hidden_bias = true;
  bool has_cell_state = false;
};

// "lstm", "gru", "rnn_tanh", "rnn_relu"; nullptr for another name.
const RecurrentKind* FindRecurrentKind(std::string_view name);

// x [rows, columns] * weight [n, columns] transposed, in the weight's type
inline Value* RecurrentProduct(Call& call, Value* x, Value* weight) {
  return call.b.Matmul(call.b.Cast(x, weight->type.dtype), weight, false, true);
}

}  // namespace hpu::compiler
