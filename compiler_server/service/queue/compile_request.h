// Checks a request of the protocol and translates it to the service's types.
#pragma once

#include "compile_service.pb.h"
#include "compiler_server/service/queue/inflight_compilation.h"

namespace hpu::server {

// Returns INVALID_ARGUMENT with the wrong field and what is allowed. The content key is computed
// here, from what was received and from the compiler that would compile it.
absl::StatusOr<CompileJob> ToCompileJob(const wire::CompileRequest& request,
                                        const std::string& compiler_build_id);

// `field` is the name in the error text.
absl::StatusOr<Digest> ToKey(const std::string& bytes, const char* field);

}  // namespace hpu::server
