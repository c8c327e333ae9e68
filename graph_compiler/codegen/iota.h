// Replaces loads whose value is the element number (Operand::Kind::kIota) by arithmetic on
// iteration indices.
#pragma once

#include "graph_compiler/codegen/loop_kernel.h"

namespace hpu::graph_compiler {

LoopPass LowerIota(const LoopPass& pass);

}  // namespace hpu::graph_compiler
