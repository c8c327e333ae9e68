#include "backend/torch/device/memory_snapshot.h"

#include <optional>
#include <vector>

#include "backend/torch/device/allocator.h"
#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {
namespace {

namespace py = pybind11;
using runtime::CallContext;

CallContext PythonStack() {
  return torch::CapturedTraceback::gather(/*python=*/true, /*script=*/false, /*cpp=*/false);
}

// Finds the frames of all stacks of a snapshot at once, because many are the same.
class Frames {
 public:
  void Want(py::dict& owner, const CallContext& context) {
    if (context == nullptr) return;
    owners_.push_back(owner);
    stacks_.push_back(static_cast<torch::CapturedTraceback*>(context.get()));
  }
  void Fill() {
    const std::vector<py::object> found = torch::py_symbolize(stacks_);
    for (size_t i = 0; i < found.size(); ++i) owners_[i]["frames"] = found[i];
  }

 private:
  std::vector<py::dict> owners_;
  std::vector<torch::CapturedTraceback*> stacks_;
};

py::dict SegmentOf(const runtime::SegmentInfo& segment, Frames& frames) {
  py::list blocks;
  uint64_t allocated = 0;
  uint64_t active = 0;
  uint64_t requested = 0;
  for (const runtime::BlockInfo& block : segment.blocks) {
    const std::string_view state = block.state;
    if (state == "active_allocated") allocated += block.bytes;
    if (state != "inactive") active += block.bytes;
    requested += block.requested;
    py::dict entry;
    entry["address"] = block.address;
    entry["size"] = block.bytes;
    entry["requested_size"] = block.requested;
    entry["state"] = block.state;
    entry["frames"] = py::list();
    frames.Want(entry, block.context);
    blocks.append(entry);
  }
  py::dict result;
  result["device"] = 0;
  result["address"] = segment.address;
  result["total_size"] = segment.bytes;
  result["allocated_size"] = allocated;
  result["active_size"] = active;
  result["requested_size"] = requested;
  result["stream"] = segment.stream;
  result["segment_type"] = segment.small ? "small" : "large";
  result["segment_pool_id"] = py::make_tuple(0, 0);
  result["is_expandable"] = false;
  result["frames"] = py::list();
  result["blocks"] = blocks;
  return result;
}

py::dict EventOf(const runtime::MemoryEvent& event, Frames& frames) {
  py::dict result;
  result["action"] = event.action;
  result[std::string_view(event.action) == "oom" ? "device_free" : "addr"] = event.address;
  result["size"] = event.bytes;
  result["stream"] = event.stream;
  result["time_us"] = event.time_us;
  result["frames"] = py::list();
  frames.Want(result, event.context);
  return result;
}

py::dict Snapshot() {
  runtime::MemorySnapshot snapshot;
  {
    const py::gil_scoped_release without_gil;
    snapshot = AcquiredDevice().allocator().Snapshot();
  }
  Frames frames;
  py::list segments;
  for (const runtime::SegmentInfo& segment : snapshot.segments) {
    segments.append(SegmentOf(segment, frames));
  }
  py::list events;
  for (const runtime::MemoryEvent& event : snapshot.events) events.append(EventOf(event, frames));
  frames.Fill();
  py::list traces;
  traces.append(events);
  py::dict result;
  result["segments"] = segments;
  result["device_traces"] = traces;
  return result;
}

void RecordHistory(std::optional<size_t> most_events, bool stacks) {
  std::optional<runtime::HistoryOptions> options;
  if (most_events.has_value()) options = {*most_events, stacks ? &PythonStack : nullptr};
  AcquiredDevice().allocator().RecordHistory(options);
}

}  // namespace

void BindMemorySnapshot(py::module_& module) {
  module.def("memory_snapshot", &Snapshot);
  module.def("record_memory_history", &RecordHistory, py::call_guard<py::gil_scoped_release>());
}

}  // namespace hpu::torch_backend
