// Measures the phases of DistributedDataParallel's steps, which its logging data show
// (DDP._get_ddp_logging_data). Without a timer for the device PyTorch warns at every model.
#include <array>
#include <memory>

#include "backend/torch/device/allocator.h"
#include "backend/torch/device/errors.h"
#include "backend/torch/pytorch/unstable_torch.h"
#include "backend/torch/record/recorder.h"

namespace hpu::torch_backend {
namespace {

class DdpTimer final : public c10d::Timer {
 public:
  explicit DdpTimer(c10::Device) {}

  void record(Event event) override {
    c10d::Timer::record(event);
    // In lazy mode a point of the stream would cut the step into several programs.
    if (Recorder::Get().Records()) return;
    std::unique_ptr<runtime::Event>& point = points_[static_cast<size_t>(event)];
    if (point == nullptr) point = std::make_unique<runtime::Event>(/*timing=*/true);
    Check(point->Record(CurrentStream()));
  }

  // Blocks until both points have passed. PyTorch asks once in a hundred steps.
  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const runtime::Event* from = points_[static_cast<size_t>(start)].get();
    const runtime::Event* to = points_[static_cast<size_t>(end)].get();
    if (from == nullptr || to == nullptr) return std::nullopt;
    Check(from->Synchronize());
    Check(to->Synchronize());
    const double milliseconds = Check(from->ElapsedMs(*to));
    if (milliseconds < 0) return std::nullopt;  // the end belongs to an earlier step
    return static_cast<int64_t>(milliseconds * 1e6);
  }

 private:
  std::array<std::unique_ptr<runtime::Event>, 5> points_;  // by Event
};

using c10d::RegistererTimerRegistry;
using c10d::TimerRegistry;
C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::DeviceType::HPU, DdpTimer)

}  // namespace
}  // namespace hpu::torch_backend
