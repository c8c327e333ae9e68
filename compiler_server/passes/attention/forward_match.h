// Matches the forward of attention (attention_match.h), from the product of weights and values to
// the product of query and key.
#pragma once

#include "compiler_server/passes/attention/match_state.h"

namespace hpu::compiler {

bool MatchForward(const ir::Node& product, MatchState& state);

}  // namespace hpu::compiler
