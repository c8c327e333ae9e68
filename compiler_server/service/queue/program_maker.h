// Turns what a compiler gave into a signed entry of the store, after checking that it is a program.
#pragma once

#include <chrono>

#include "compiler_server/service/queue/inflight_compilation.h"
#include "recipe_store/signing/signing.h"

namespace hpu::server {

// INTERNAL if the program does not decode or does not name exactly these recipes: the compiler has
// a bug, and nothing of it may reach a store or a client.
absl::StatusOr<store::Entry> MakeProgramEntry(const CompileJob& job, CompileOutput output,
                                              std::chrono::microseconds duration,
                                              const store::SigningKey& signing_key);

}  // namespace hpu::server
