#include "backend/runtime/stream.h"

#include <algorithm>

#include "backend/runtime/device.h"
#include "backend/runtime/syn_status.h"

namespace hpu::runtime {
namespace {
thread_local uint32_t current_stream_id = 0;
RecordedWork* recorded_work = nullptr;
}  // namespace

void SetRecordedWork(RecordedWork* work) { recorded_work = work; }

void QueueRecorded(const Stream* stream) {
  if (recorded_work != nullptr) recorded_work->QueueWorkOf(stream);
}

uint32_t CurrentStreamId() { return current_stream_id; }
void SetCurrentStreamId(uint32_t id) { current_stream_id = id; }

absl::Status WithSuspects(const absl::Status& failure, const LaunchHistory& launches) {
  if (failure.ok()) return failure;
  const std::string suspects = launches.Suspects(std::string(failure.message()));
  if (suspects.empty()) return failure;
  return Error(failure.code(), failure.message(), "; ", suspects);
}

absl::Status Stream::Synchronize() {
  QueueRecorded(this);
  const uint64_t queued = launches_.count();
  const absl::Status waited = WaitForAll();
  const absl::Status told = WithSuspects(waited, launches_);
  launches_.Settle(queued);
  return told;
}

absl::Status Stream::WaitForAll() {
  RETURN_IF_ERROR(device_.CheckUsable());
  const SynapseFunctions& api = device_.api();
  if (!device_.properties().host_addressable) {
    // A real device may report a stream as idle before a late transfer is visible; an event after
    // all other work is reliable. The emulator's strict mode takes the same way.
    Event tail;
    RETURN_IF_ERROR(tail.Record(*this));
    RETURN_IF_ERROR(tail.Synchronize());
  }
  RETURN_IF_SYN_ERROR(api, synStreamSynchronize, handle_);
  return absl::OkStatus();
}

absl::StatusOr<bool> Stream::Query() {
  QueueRecorded(this);
  RETURN_IF_ERROR(device_.CheckUsable());
  const uint64_t queued = launches_.count();
  const synStatus status = device_.api().synStreamQuery(handle_);
  if (status == synBusy) return false;
  RETURN_IF_ERROR(WithSuspects(ToStatus(device_.api(), status, "synStreamQuery"), launches_));
  launches_.Settle(queued);
  return true;
}

absl::Status Stream::Wait(Event& event) {
  if (event.capture_ != 0) {
    if (recorded_work->JoinCapture(*this, event.capture_)) return absl::OkStatus();
    return Error(absl::StatusCode::kFailedPrecondition,
                 "a stream cannot wait for an event of a capture that has ended; record the event "
                 "again");
  }
  // In a capture, the wait comes before the work that the capture queues at its end.
  if (recorded_work == nullptr || recorded_work->CaptureOf(*this) == 0) QueueRecorded(this);
  RETURN_IF_ERROR(device_.CheckUsable());
  if (event.handle() == nullptr) return absl::OkStatus();
  RETURN_IF_SYN_ERROR(device_.api(), synStreamWaitEvent, handle_, event.handle(), 0);
  std::atomic<uint64_t>& waits = waits_[event.stream().id()];
  uint64_t before = waits.load(std::memory_order_relaxed);
  while (before < event.position() && !waits.compare_exchange_weak(before, event.position())) {
  }
  return absl::OkStatus();
}

absl::Status Stream::WaitFor(Stream& other) {
  Event now;
  RETURN_IF_ERROR(now.Record(other));
  return Wait(now);
}

bool Stream::IsAfter(const Stream& other, uint64_t position) const {
  return &other == this || waits_[other.id()].load(std::memory_order_relaxed) >= position;
}

uint64_t Stream::QueuedPosition() {
  std::lock_guard lock(calls_mutex_);
  const auto earliest = std::min_element(calls_.begin(), calls_.end());
  return earliest == calls_.end() ? position_.load(std::memory_order_relaxed) : *earliest;
}

QueueingCall::QueueingCall(Stream& stream)
    : stream_(stream), noted_(stream.device().has_several_streams()) {
  if (!noted_) return;
  std::lock_guard lock(stream_.calls_mutex_);
  start_ = stream_.position_.load(std::memory_order_relaxed);
  stream_.calls_.push_back(start_);
}

QueueingCall::~QueueingCall() {
  if (!noted_) {
    // The call began with one stream and noted no use.
    if (stream_.device().has_several_streams()) stream_.device().RaiseUntrackedPosition();
    return;
  }
  std::lock_guard lock(stream_.calls_mutex_);
  stream_.calls_.erase(std::find(stream_.calls_.begin(), stream_.calls_.end(), start_));
}

Event::~Event() {
  if (handle_ == nullptr || !device_->CheckUsable().ok()) return;
  device_->api().synEventDestroy(handle_);
}

absl::Status Event::Record(Stream& stream) {
  capture_ = recorded_work == nullptr ? 0 : recorded_work->CaptureOf(stream);
  if (capture_ != 0) return absl::OkStatus();
  QueueRecorded(&stream);
  Device& device = stream.device();
  RETURN_IF_ERROR(device.CheckUsable());
  if (handle_ == nullptr) {
    RETURN_IF_SYN_ERROR(device.api(), synEventCreate, &handle_, device.id(),
                        timing_ ? EVENT_COLLECT_TIME : 0);
    device_ = &device;
  }
  stream_ = &stream;
  launches_ = stream.launches().count();
  position_ = stream.QueuedPosition();
  RETURN_IF_SYN_ERROR(device.api(), synEventRecord, handle_, stream.handle());
  return absl::OkStatus();
}

absl::Status Event::CheckNotCaptured(const char* use) const {
  if (capture_ == 0) return absl::OkStatus();
  return Error(absl::StatusCode::kFailedPrecondition, "an event that was recorded in a capture ",
               "cannot be ", use, "; record it outside of the capture");
}

absl::StatusOr<bool> Event::Query() const {
  RETURN_IF_ERROR(CheckNotCaptured("queried"));
  if (handle_ == nullptr) return true;
  RETURN_IF_ERROR(device_->CheckUsable());
  const synStatus status = device_->api().synEventQuery(handle_);
  if (status == synBusy) return false;
  RETURN_IF_ERROR(
      WithSuspects(ToStatus(device_->api(), status, "synEventQuery"), stream_->launches()));
  stream_->launches().Settle(launches_);
  return true;
}

absl::Status Event::Synchronize() const {
  RETURN_IF_ERROR(CheckNotCaptured("waited for by the host"));
  if (handle_ == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(device_->CheckUsable());
  const SynapseFunctions& api = device_->api();
  const synStatus waited = api.synEventSynchronize(handle_);
  const absl::Status told = Settle(ToStatus(api, waited, "synEventSynchronize"));
  // This takes the failure, which is reported once.
  if (waited != synSuccess) api.synStreamSynchronize(stream_->handle());
  return told;
}

absl::Status Event::Settle(const absl::Status& waited) const {
  const absl::Status told = WithSuspects(waited, stream_->launches());
  stream_->launches().Settle(launches_);
  return told;
}

absl::StatusOr<double> Event::ElapsedMs(const Event& end) const {
  if (!timing_ || !end.timing_) {
    return InvalidArgument("elapsed_time needs events made with enable_timing=True");
  }
  RETURN_IF_ERROR(CheckNotCaptured("timed"));
  RETURN_IF_ERROR(end.CheckNotCaptured("timed"));
  if (handle_ == nullptr || end.handle_ == nullptr) {
    return InvalidArgument("elapsed_time needs both events recorded");
  }
  RETURN_IF_ERROR(device_->CheckUsable());
  uint64_t ns = 0;
  const synStatus status = device_->api().synEventElapsedTime(&ns, handle_, end.handle_);
  if (status == synBusy) {
    return Error(absl::StatusCode::kFailedPrecondition,
                 "elapsed_time: an event has not completed; synchronize it first");
  }
  RETURN_IF_ERROR(ToStatus(device_->api(), status, "synEventElapsedTime"));
  // The difference wraps around where `end` is the earlier one.
  return static_cast<double>(static_cast<int64_t>(ns)) * 1e-6;
}

}  // namespace hpu::runtime
