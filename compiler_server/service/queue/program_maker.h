// Turns the compiler's output into a signed entry of the store, after checking that it is a
// program.
#pragma once

#include <chrono>

#include "compiler_server/service/queue/inflight_compilation.h"
#include "recipe_store/signing/signing.h"

namespace hpu::server {

// Returns INTERNAL if the program cannot be decoded or does not name exactly these recipes: then
// the compiler has a bug, and none of its output may reach a store or a client.
absl::StatusOr<store::Entry> MakeProgramEntry(const CompileJob& job, CompileOutput output,
                                              std::chrono::microseconds duration,
                                              const store::SigningKey& signing_key);

}  // namespace hpu::server
