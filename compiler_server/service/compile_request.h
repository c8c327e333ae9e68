// A request of the wire, checked and put into the service's terms.
#pragma once

#include <optional>

#include "compile_service.pb.h"
#include "compiler_server/service/alias_book.h"
#include "compiler_server/service/flight.h"

namespace hpu::server {

struct CompileRequest {
  CompileJob job;
  std::optional<FrontEnd> front_end;
};

// INVALID_ARGUMENT says which field is wrong and what is allowed. The content key is computed here,
// from what came and from the compiler that would compile it.
absl::StatusOr<CompileRequest> ToCompileRequest(const wire::CompileRequest& request,
                                                const std::string& compiler_build_id);

// `field` names it in the error.
absl::StatusOr<Digest> ToKey(const std::string& bytes, const char* field);

}  // namespace hpu::server
