#include "compiler_server/service/queue/request_limits.h"

namespace hpu::server {
namespace {

absl::Status CheckBytes(std::string_view field, size_t bytes, size_t limit) {
  if (bytes <= limit) return absl::OkStatus();
  return InvalidArgument(field, " has ", bytes, " bytes; at most ", limit, " are taken");
}

absl::Status CheckCount(std::string_view field, int count, int limit) {
  if (count <= limit) return absl::OkStatus();
  return InvalidArgument("the request has ", count, " ", field, "; at most ", limit, " are taken");
}

}  // namespace

absl::Status CheckLimits(const wire::CompileRequest& request) {
  if (request.graph().empty()) return InvalidArgument("the request carries no graph");
  RETURN_IF_ERROR_AT(CheckBytes("the graph", request.graph().size(), kMaxGraphBytes),
                     "declare large constants as inputs");
  RETURN_IF_ERROR(CheckBytes("device_kind", request.device_kind().size(), kMaxNameBytes));
  RETURN_IF_ERROR(CheckBytes("isa_level", request.isa_level().size(), kMaxNameBytes));
  RETURN_IF_ERROR(CheckCount("options", request.options_size(), kMaxOptions));
  for (const wire::CompileOption& option : request.options()) {
    RETURN_IF_ERROR(CheckBytes("an option's name", option.name().size(), kMaxNameBytes));
    RETURN_IF_ERROR(CheckBytes("option " + option.name(), option.value().size(), kMaxOptionBytes));
  }
  const wire::FrontEndKey& front_end = request.front_end();
  RETURN_IF_ERROR(CheckBytes("the label", front_end.label().size(), store::kMaxLabelBytes));
  RETURN_IF_ERROR(CheckCount("key factors", front_end.factors_size(), kMaxFactors));
  size_t factor_bytes = 0;
  for (const wire::KeyFactor& factor : front_end.factors()) {
    RETURN_IF_ERROR(CheckBytes("a key factor's name", factor.name().size(), kMaxNameBytes));
    factor_bytes += factor.name().size() + factor.value().size();
  }
  return CheckBytes("the list of key factors", factor_bytes, kMaxFactorsBytes);
}

}  // namespace hpu::server
