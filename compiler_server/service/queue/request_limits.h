// The limits of a compile request. Everything that it contains is stored, logged or signed, some of
// it more than once, so everything has a bound.
#pragma once

#include "base/status.h"
#include "compile_service.pb.h"
#include "recipe_store/signing/alias.h"

namespace hpu::server {

inline constexpr size_t kMaxGraphBytes = 64 << 20;
inline constexpr int kMaxOptions = 64;
inline constexpr int kMaxFactors = 1 << 10;
inline constexpr size_t kMaxNameBytes = 256;     // of an option, a factor, a device, an ISA level
inline constexpr size_t kMaxOptionBytes = 4096;  // an option's value
// All factors of the front-end key together, which go into the alias.
inline constexpr size_t kMaxFactorsBytes = store::kMaxAliasBytes / 2;

// Returns INVALID_ARGUMENT with the field, its size and its limit.
absl::Status CheckLimits(const wire::CompileRequest& request);

}  // namespace hpu::server
