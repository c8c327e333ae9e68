#include "compiler_server/service/queue/compile_request.h"

#include "compiler_server/service/queue/request_limits.h"
#include "graph/captured_graph.h"

namespace hpu::server {
namespace {

absl::StatusOr<store::FrontEndKey> ToFrontEnd(const wire::FrontEndKey& message) {
  store::FrontEndKey front_end;
  ASSIGN_OR_RETURN(front_end.key, ToKey(message.key(), "front-end key"));
  for (const wire::KeyFactor& factor : message.factors()) {
    front_end.factors.push_back({factor.name(), factor.value()});
  }
  front_end.label = message.label();
  return front_end;
}

absl::StatusOr<Digest> DigestOf(const std::string& graph) {
  absl::StatusOr<Digest> digest =
      GraphDigest({reinterpret_cast<const uint8_t*>(graph.data()), graph.size()});
  // The damage is not in our data: the request is bad.
  if (!digest.ok()) return InvalidArgument(digest.status().message());
  return digest;
}

}  // namespace

absl::StatusOr<Digest> ToKey(const std::string& bytes, const char* field) {
  const absl::StatusOr<Digest> key = store::ReadDigest(bytes, field);
  return key.ok() ? key : InvalidArgument(std::string(key.status().message()));
}

absl::StatusOr<CompileJob> ToCompileJob(const wire::CompileRequest& request,
                                        const std::string& compiler_build_id) {
  CompileJob job;
  RETURN_IF_ERROR(CheckLimits(request));
  store::OptionList options;
  for (const wire::CompileOption& option : request.options()) {
    options.emplace_back(option.name(), option.value());
  }
  ASSIGN_OR_RETURN(job.content.graph, DigestOf(request.graph()));
  ASSIGN_OR_RETURN(job.content.options, store::CanonicalOptions(options));
  job.content.device_kind = request.device_kind();
  job.content.isa_level = request.isa_level();
  job.content.compiler_build_id = compiler_build_id;
  job.key = store::ContentKey(job.content);
  job.inflight_key = job.key;
  job.input = {request.graph(), job.content.options, request.device_kind(), request.isa_level()};
  job.skip_cache_lookup = request.skip_cache_lookup();
  job.warm_up = request.warm_up();
  if (request.has_front_end()) {
    ASSIGN_OR_RETURN(job.front_end, ToFrontEnd(request.front_end()));
  }
  return job;
}

}  // namespace hpu::server
