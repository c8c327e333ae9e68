// The process group backend "hccl" of torch.distributed.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backend/runtime/device.h"
#include "backend/torch/distributed/hccl_call.h"
#include "backend/torch/distributed/hccl_work.h"
#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {

// Collectives are queued: on the current stream if they are called with async_op=False, else on a
// stream of this group that waits for the current one. Sends and receives with async_op=True have
// a stream for each direction to each peer, so that none waits for another.
//
// Thread-safe, but all ranks must make the same calls in the same order.
class HcclBackend final : public c10d::Backend {
 public:
  struct Options : c10d::Backend::Options {
    explicit Options(std::chrono::milliseconds longest = kBackendDefaultTimeout)
        : c10d::Backend::Options("hccl", longest) {}
  };

  HcclBackend(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
              c10::intrusive_ptr<Options> options);
  ~HcclBackend() override;

  const std::string getBackendName() const override { return "hccl"; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return options_; }
  bool supportsSplitting() const override { return true; }
  bool supportsCoalescing() const override { return true; }
  void setTimeout(std::chrono::milliseconds timeout) override { options_->timeout = timeout; }
  void startCoalescing() override;
  c10::intrusive_ptr<c10d::Work> endCoalescing() override;
  // Ends coalescing after a call has raised an error: PyTorch does not do so then.
  void AbandonCoalescing();
  void eagerConnectSingleDevice(at::Device device) override;
  c10::intrusive_ptr<c10d::Backend> split(
      const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
      const c10::intrusive_ptr<c10d::Backend::Options>& options) override;
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override;
  // Ends the thread that lets tensors go and ends works that take too long.
  void StopWatching();
  // Gives the thread up in a forked child.
  void LeaveToParent();
  c10d::ErrorType getError() override;
  void abort() override;
  void shutdown() override;

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce_coalesced(
      std::vector<at::Tensor>& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce(std::vector<at::Tensor>& tensors,
                                        const c10d::ReduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather_coalesced(
      std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
      const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather_into_tensor_coalesced(
      std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
      const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> gather(std::vector<std::vector<at::Tensor>>& outputs,
                                        std::vector<at::Tensor>& inputs,
                                        const c10d::GatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> scatter(std::vector<at::Tensor>& outputs,
                                         std::vector<std::vector<at::Tensor>>& inputs,
                                         const c10d::ScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter(std::vector<at::Tensor>& outputs,
                                                std::vector<std::vector<at::Tensor>>& inputs,
                                                const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(
      at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter_tensor_coalesced(
      std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
      const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& output, at::Tensor& input,
                                               std::vector<int64_t>& output_splits,
                                               std::vector<int64_t>& input_splits,
                                               const c10d::AllToAllOptions& options) override;
  c10::intrusive_ptr<c10d::Work> alltoall(std::vector<at::Tensor>& outputs,
                                          std::vector<at::Tensor>& inputs,
                                          const c10d::AllToAllOptions& options) override;
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int peer, int tag) override;
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int peer, int tag) override;
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override;

 private:
  // Every call has these beside its own code.
  struct Call {
    c10d::OpType type = c10d::OpType::UNKNOWN;
    const char* name = "";
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> outputs;
    std::chrono::milliseconds timeout = c10d::kUnsetTimeout;
    bool is_async = true;
    runtime::Stream* stream = nullptr;  // of an asynchronous call; null = that of collectives
  };
  // Queues calls of HCCL for the inputs and outputs of the call, which are row-major.
  using Body = std::function<void(const HcclQueue& to, const std::vector<at::Tensor>& inputs,
                                  const std::vector<at::Tensor>& outputs)>;
  c10::intrusive_ptr<HcclWork> Run(Call call, const Body& body);
  c10::intrusive_ptr<HcclWork> NewWork(const Call& call,
                                       const std::shared_ptr<HcclCommunicator>& communicator);
  void Keep(const c10::intrusive_ptr<HcclWork>& work);
  std::shared_ptr<HcclCommunicator> Communicator();
  hcclUniqueId ShareId(const SynapseFunctions& api, const std::string& key);
  // Returns a stream that only this group uses, as long as the device has any, else the group's
  // stream of collectives.
  runtime::Stream& OwnStream();
  runtime::Stream& StreamTo(int peer, bool sends);
  c10::intrusive_ptr<c10d::Work> SendOrReceive(std::vector<at::Tensor>& tensors, int peer,
                                               bool sends);
  void CheckOne(const std::vector<at::Tensor>& tensors, const char* name) const;
  void CheckRank(int64_t rank, const char* what) const;
  void Watch();
  // Returns when all works have ended, by themselves or by their timeout.
  void AwaitWorks();
  // Takes the failures of this group's streams and of the current one, which the caller knows of.
  void TakeFailures();

  const c10::intrusive_ptr<c10d::Store> store_;
  const c10::intrusive_ptr<Options> options_;

  std::mutex mutex_;  // guards the members below
  std::shared_ptr<HcclCommunicator> communicator_;
  uint64_t generation_ = 0;  // the number of communicators so far
  std::vector<uint32_t> taken_streams_;
  runtime::Stream* stream_ = nullptr;                          // of collectives
  std::vector<std::array<runtime::Stream*, 2>> peer_streams_;  // by peer: sends, receives
  uint64_t sequence_ = 0;
  // Between startCoalescing and endCoalescing: the tensors of the calls so far.
  struct Coalesced {
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> outputs;
    std::vector<WrittenCopy> written;
  };
  std::optional<Coalesced> coalesced_;

  // Works that have not ended, which keeps their tensors alive and lets the thread end those that
  // take too long.
  struct Watched {
    std::mutex mutex;
    std::condition_variable stopped;
    std::list<c10::intrusive_ptr<HcclWork>> works;
    bool stop = false;
    std::thread thread;
  };
  const int process_;
  std::unique_ptr<Watched> watched_;
};

// Ends the threads of all backends, which let tensors go and must not do so while the interpreter
// ends.
void StopWatchingBackends();

// Adds the class to the module.
void BindDistributed(pybind11::module_& module);
// Registers c10d's operators for hpu.
void RegisterDistributedKernels();

}  // namespace hpu::torch_backend
