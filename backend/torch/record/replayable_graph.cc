#include "backend/torch/record/replayable_graph.h"

#include <utility>

#include "backend/runtime/bridge_log.h"
#include "backend/runtime/stream.h"
#include "backend/torch/device/allocator.h"
#include "backend/torch/device/errors.h"
#include "backend/torch/device/pending_storage.h"
#include "backend/torch/device/run_now.h"
#include "program/program.h"

namespace hpu::torch_backend {

namespace py = pybind11;

ReplayableGraph::ReplayableGraph(std::unique_ptr<Recording> recording, std::vector<uint32_t> filled)
    : recording_(std::move(recording)) {
  if (recording_->calls().empty()) return;
  program_ = CompileRecording(*recording_, filled, {}, Results::kInPlace);
  TORCH_CHECK(program_->program != nullptr,
              "the captured calls have no program: ", program_->refusal);
  BRIDGE_LOG(kLazy, kDebug,
             "compiled " << program_->program->forward().name() << " of "
                         << recording_->calls().size() << " captured calls");
  for (const uint32_t value : filled) {
    const c10::Storage& storage = recording_->values()[value].storage;
    storage.set_data_ptr_noswap(GetDeviceAllocator().allocate(storage.nbytes()));
  }
}

void ReplayableGraph::Replay() const {
  if (program_ == nullptr) return;
  runtime::QueueRecorded(&CurrentStream());
  const runtime::QueueingCall queueing(CurrentStream());
  for (const RecordedProgram::Input& input : program_->inputs) {
    const c10::Storage& storage = recording_->values()[input.value].storage;
    if (storage) BeforeAccess(storage, "a captured graph");
  }
  const CallsRunNow run_now;  // also those that are no recipes of the program
  BRIDGE_LOG(kLazy, kDebug, "replayed " << program_->program->forward().name());
  program_->Run(*recording_);
}

std::string ReplayableGraph::Text() const {
  return program_ == nullptr ? std::string() : PrintProgram(program_->program->program());
}

void BindReplayableGraph(py::module_& module) {
  using ReleaseGil = py::call_guard<py::gil_scoped_release>;
  py::class_<ReplayableGraph>(module, "ReplayableGraph")
      .def("replay", &ReplayableGraph::Replay, ReleaseGil())
      .def("text", &ReplayableGraph::Text);
}

}  // namespace hpu::torch_backend
