// Headers that are precompiled for every file of this module: torch's headers cost most of the
// compile time.
#pragma once

#include <ATen/ATen.h>
#include <torch/library.h>

#include "backend/torch/pytorch/unstable_torch.h"
