// Loads whose value is the element number (kIotaOperand) become arithmetic on iteration indices.
#pragma once

#include "synapse/emulator/graph_compiler/codegen/loop_kernel.h"

namespace hpu::emulator {

LoopPass LowerIota(const LoopPass& pass);

}  // namespace hpu::emulator
