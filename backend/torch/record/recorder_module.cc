// The functions of the recorder that Python calls.
#include <optional>
#include <vector>

#include "backend/torch/device/allocator.h"
#include "backend/torch/device/pending_storage.h"
#include "backend/torch/device/run_now.h"
#include "backend/torch/record/front_end.h"
#include "backend/torch/record/recorder.h"

namespace hpu::torch_backend {

namespace {

namespace py = pybind11;

}  // namespace

void BindRecorder(py::module_& module) {
  using ReleaseGil = py::call_guard<py::gil_scoped_release>;
  module.def("start_lazy_mode", [](size_t most) { Recorder::Get().StartLazyMode(most); });
  module.def(
      "queue_recorded", [] { Recorder::Get().QueueStream(std::nullopt, "mark_step()"); },
      ReleaseGil());
  module.def("give_memory", [](const at::Tensor& tensor) {
    if (IsHpu(tensor) && !InFrontEnd()) BeforeAccess(tensor.storage(), "a use of its storage");
  });
  module.def("stop_recording", [] { Recorder::Get().Stop(); }, ReleaseGil());
  module.def("recorder_counts", [] { return Recorder::Get().Counts(); });
  module.def("begin_capture", [] { return Recorder::Get().BeginCapture(); }, ReleaseGil());
  module.def(
      "end_capture", [](uint64_t capture) { return Recorder::Get().EndCapture(capture); },
      ReleaseGil());
  module.def(
      "end_call",
      [](uint64_t capture, const std::vector<at::Tensor>& given,
         const std::vector<at::Tensor>& results, bool differentiable) {
        return Recorder::Get().EndCall(capture, given, results, differentiable);
      },
      ReleaseGil());
  module.def(
      "abandon_capture", [](uint64_t capture) { Recorder::Get().AbandonCapture(capture); },
      ReleaseGil());
  module.def("without_recording", [](const py::function& function) {
    const CallsRunNow run_now;
    return function();
  });
  module.def("is_capturing", [] { return Recorder::Get().IsCapturing(); });
}

}  // namespace hpu::torch_backend
