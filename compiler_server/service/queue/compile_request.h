// A request of the wire, checked and put into the service's terms.
#pragma once

#include "compile_service.pb.h"
#include "compiler_server/service/queue/inflight_compilation.h"

namespace hpu::server {

// INVALID_ARGUMENT says which field is wrong and what is allowed. The content key is computed here,
// from what came and from the compiler that would compile it.
absl::StatusOr<CompileJob> ToCompileJob(const wire::CompileRequest& request,
                                        const std::string& compiler_build_id);

// `field` names it in the error.
absl::StatusOr<Digest> ToKey(const std::string& bytes, const char* field);

}  // namespace hpu::server
