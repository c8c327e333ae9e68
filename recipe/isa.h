// Instruction-set level of the host and its names.
#pragma once

#include <optional>
#include <string_view>

#include "recipe/recipe.h"

namespace hpu {

// Highest level whose instructions the CPU has and the operating system saves (cpuid, xgetbv; for
// AMX it is asked to).
// nullopt: below x86-64-v2. Computed once.
std::optional<IsaLevel> HostIsaLevel();

// "x86-64-v3", "x86-64-v4-bf16" ...
std::string_view IsaLevelName(IsaLevel level);
std::optional<IsaLevel> IsaLevelFromName(std::string_view name);

}  // namespace hpu
