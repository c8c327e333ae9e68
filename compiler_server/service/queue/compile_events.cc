#include "compiler_server/service/queue/compile_events.h"

namespace hpu::server {

bool SendFailure(const absl::Status& failure, grpc::ServerWriter<wire::CompileEvent>* writer) {
  wire::CompileEvent event;
  event.mutable_failure()->set_code(static_cast<int32_t>(failure.code()));
  event.mutable_failure()->set_message(std::string(failure.message()));
  return writer->Write(event);
}

bool SendState(const InflightCompilation::View& view,
               grpc::ServerWriter<wire::CompileEvent>* writer) {
  wire::CompileEvent event;
  if (view.started) {
    event.mutable_progress()->set_stage(view.progress.stage);
    event.mutable_progress()->set_done(view.progress.done);
    event.mutable_progress()->set_total(view.progress.total);
  } else {
    event.mutable_queued()->set_position(view.position);
  }
  return writer->Write(event);
}

const char* NameOf(wire::CompileEvent::Origin origin) {
  if (origin == wire::CompileEvent::ORIGIN_STORE) return "store";
  return origin == wire::CompileEvent::ORIGIN_COALESCED ? "coalesced" : "compiled";
}

wire::CompileEvent::Origin OriginOf(const CompileResult& result, bool leader) {
  if (result.from_store) return wire::CompileEvent::ORIGIN_STORE;
  return leader ? wire::CompileEvent::ORIGIN_COMPILED : wire::CompileEvent::ORIGIN_COALESCED;
}

}  // namespace hpu::server
