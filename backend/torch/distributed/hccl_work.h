// A collective that was queued, as c10d.Work shows it.
#pragma once

#include <ATen/ATen.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/runtime/device.h"
#include "backend/torch/pytorch/unstable_torch.h"
#include "synapse/include/hccl.h"

namespace hpu::torch_backend {

// A communicator, which is made when the first collective needs it. Works share it, because they
// can outlive the process group. Thread-safe.
class HcclCommunicator {
 public:
  explicit HcclCommunicator(hcclComm_t handle) : handle_(handle) {}
  ~HcclCommunicator();
  HcclCommunicator(const HcclCommunicator&) = delete;
  HcclCommunicator& operator=(const HcclCommunicator&) = delete;

  // Throws why there is none any more, if it has been aborted.
  hcclComm_t handle() const;
  // Returns the communicator's failure; empty while there is none.
  std::string Failure() const;
  // Ends everything that is queued on it with `reason`.
  void Abort(const std::string& reason);

 private:
  mutable std::mutex mutex_;
  hcclComm_t handle_;   // null after an abort
  std::string reason_;  // of the abort
};

class HcclWork final : public c10d::Work {
 public:
  // `inputs` and `outputs` live until the work has ended.
  HcclWork(int rank, c10d::OpType type, const char* name, std::vector<at::Tensor> inputs,
           std::vector<at::Tensor> outputs, std::chrono::milliseconds timeout,
           std::shared_ptr<HcclCommunicator> communicator);

  // Notes the point of the stream after which the work has ended.
  void Record(runtime::Stream& stream);
  // Lets wait() block the host until the work has ended, as a barrier does.
  void set_blocks_host() { blocks_host_ = true; }

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  std::vector<at::Tensor> result() override { return outputs_; }
  // Makes the current stream wait. Throws c10d's DistBackendError if the communicator has failed.
  void synchronize() override;
  // A timeout makes the host wait, too.
  bool wait(std::chrono::milliseconds timeout) override;
  void blockCurrentStream() override { synchronize(); }
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

  // Returns whether the work has ended, with or without an error.
  bool HasEnded() const;
  // Aborts the communicator if the work has taken longer than its timeout. Returns whether it did
  // so. One thread calls it.
  bool AbortIfOverdue();

 private:
  void ThrowFailure() const;
  void AbortAfter(std::chrono::milliseconds timeout);

  const int rank_;
  const char* const name_;
  const std::vector<at::Tensor> inputs_;
  const std::vector<at::Tensor> outputs_;
  const std::chrono::milliseconds timeout_;
  const std::chrono::steady_clock::time_point start_;
  const std::shared_ptr<HcclCommunicator> communicator_;
  bool blocks_host_ = false;
  bool told_overdue_ = false;
  runtime::Event event_;  // recorded once, before others see the work
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace hpu::torch_backend
