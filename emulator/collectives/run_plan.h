// Carries out a plan on the links of a communicator.
#pragma once

#include "base/status.h"
#include "emulator/collectives/communicator.h"
#include "emulator/collectives/plan.h"

namespace hpu::emulator {

// Blocks until this rank's part is done. An error is the communicator's failure, which all ranks
// hear of.
absl::Status RunPlan(Communicator& communicator, Plan& plan);

}  // namespace hpu::emulator
