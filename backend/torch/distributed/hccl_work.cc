#include "backend/torch/distributed/hccl_work.h"

#include <thread>
#include <utility>

#include "backend/torch/device/allocator.h"
#include "backend/torch/device/errors.h"
#include "backend/torch/distributed/hccl_call.h"

namespace hpu::torch_backend {
namespace {

// A wait with a timeout looks this often; events of the device have none.
constexpr std::chrono::milliseconds kPollTime{1};

// The thread's current stream while the object lives.
class CurrentStreamGuard {
 public:
  explicit CurrentStreamGuard(const runtime::Stream& stream) : before_(runtime::CurrentStreamId()) {
    runtime::SetCurrentStreamId(stream.id());
  }
  ~CurrentStreamGuard() { runtime::SetCurrentStreamId(before_); }
  CurrentStreamGuard(const CurrentStreamGuard&) = delete;
  CurrentStreamGuard& operator=(const CurrentStreamGuard&) = delete;

 private:
  const uint32_t before_;
};

}  // namespace

HcclCommunicator::~HcclCommunicator() {
  if (handle_ != nullptr && runtime::Device::Get().CheckUsable().ok()) {
    runtime::Device::Get().api().hcclCommDestroy(handle_);
  }
}

hcclComm_t HcclCommunicator::handle() const {
  std::lock_guard lock(mutex_);
  TORCH_CHECK_WITH(DistBackendError, handle_ != nullptr, reason_);
  return handle_;
}

std::string HcclCommunicator::Failure() const {
  std::lock_guard lock(mutex_);
  if (handle_ == nullptr) return reason_;
  const SynapseFunctions& api = runtime::Device::Get().api();
  hcclResult_t error = hcclSuccess;
  if (api.hcclCommGetAsyncError(handle_, &error) != hcclSuccess || error == hcclSuccess) return "";
  const char* message =
      api.synGetLastErrorMessage != nullptr ? api.synGetLastErrorMessage() : nullptr;
  return message != nullptr && *message != '\0' ? message : api.hcclGetErrorString(error);
}

void HcclCommunicator::Abort(const std::string& reason) {
  std::lock_guard lock(mutex_);
  if (handle_ == nullptr) return;
  const SynapseFunctions& api = runtime::Device::Get().api();
  const hcclComm_t handle = std::exchange(handle_, nullptr);
  if (api.synEmulatorCommAbort != nullptr) {
    api.synEmulatorCommAbort(handle, reason.c_str());
  } else {
    api.hcclCommAbort(handle);
  }
  reason_ = reason;
}

HcclWork::HcclWork(int rank, c10d::OpType type, const char* name, std::vector<at::Tensor> inputs,
                   std::vector<at::Tensor> outputs, std::chrono::milliseconds timeout,
                   std::shared_ptr<HcclCommunicator> communicator)
    : Work(rank, type, name, inputs),
      rank_(rank),
      name_(name),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      timeout_(timeout),
      start_(std::chrono::steady_clock::now()),
      communicator_(std::move(communicator)),
      future_(c10::make_intrusive<c10::ivalue::Future>(
          c10::ListType::create(c10::TensorType::get()), std::vector<c10::Device>{kHpuDevice})) {}

// The future is complete at once: who waits for it makes a stream wait.
void HcclWork::Record(runtime::Stream& stream) {
  Check(event_.Record(stream));
  const CurrentStreamGuard current(stream);
  future_->markCompleted(c10::IValue(outputs_));
}

bool HcclWork::HasEnded() const {
  const absl::StatusOr<bool> ended = event_.Query();
  return !ended.ok() || *ended;
}

bool HcclWork::AbortIfOverdue() {
  if (timeout_.count() <= 0 || std::chrono::steady_clock::now() - start_ < timeout_) return false;
  if (HasEnded() || told_overdue_) return false;
  told_overdue_ = true;
  const std::string reason = std::string(name_) + " of rank " + std::to_string(rank_) +
                             " did not end within the process group's timeout of " +
                             std::to_string(timeout_.count()) + " ms";
  TORCH_WARN(reason, ": the group's communicator is aborted");
  communicator_->Abort(reason);
  return true;
}

void HcclWork::ThrowFailure() const {
  const std::string failure = communicator_->Failure();
  TORCH_CHECK_WITH(DistBackendError, failure.empty(), name_, ": ", failure);
}

bool HcclWork::isCompleted() { return HasEnded() || !communicator_->Failure().empty(); }

bool HcclWork::isSuccess() const { return communicator_->Failure().empty(); }

std::exception_ptr HcclWork::exception() const {
  try {
    ThrowFailure();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

void HcclWork::synchronize() {
  ThrowFailure();
  Check(CurrentStream().Wait(event_));
}

bool HcclWork::wait(std::chrono::milliseconds timeout) {
  if (!blocks_host_ && timeout == kNoTimeout) {
    synchronize();
    return true;
  }
  if (timeout != kNoTimeout) AbortAfter(timeout);
  // Waiting takes the failure, so that the stream does not report it again.
  const absl::Status waited = event_.Synchronize();
  ThrowFailure();
  Check(waited);
  synchronize();
  return true;
}

void HcclWork::AbortAfter(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!HasEnded() && communicator_->Failure().empty()) {
    if (std::chrono::steady_clock::now() > deadline) {
      communicator_->Abort("it did not end within " + std::to_string(timeout.count()) + " ms");
    }
    std::this_thread::sleep_for(kPollTime);
  }
}

void HcclWork::abort() { communicator_->Abort(std::string(name_) + " was aborted"); }

}  // namespace hpu::torch_backend
