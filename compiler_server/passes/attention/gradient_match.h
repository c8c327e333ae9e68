// Matches the gradient of attention (attention_match.h), from the gradient of the softmax on.
#pragma once

#include "compiler_server/passes/attention/match_state.h"

namespace hpu::compiler {

enum class GradientMatch {
  kNone,
  kFound,
  kOfAnotherForm,
};

// Takes a state that the forward has filled.
GradientMatch MatchGradient(MatchState& state);

}  // namespace hpu::compiler
