// The instruction-set level of the host, and the names of levels.
#pragma once

#include <optional>
#include <string_view>

#include "recipe/recipe.h"

namespace hpu {

// Returns the highest level whose instructions the CPU has and whose registers the operating system
// saves (cpuid, xgetbv; for AMX the system is asked for permission). Returns nullopt below
// x86-64-v2. It is computed once.
std::optional<IsaLevel> HostIsaLevel();

// Returns "x86-64-v3", "x86-64-v4-bf16" and the like.
std::string_view IsaLevelName(IsaLevel level);
std::optional<IsaLevel> IsaLevelFromName(std::string_view name);

}  // namespace hpu
