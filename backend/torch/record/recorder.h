// Lazy mode and captures: calls of operators on hpu are recorded, and run later as one program.
//
// - Lazy mode (PT_HPU_LAZY_MODE=1): every stream has a recording. It runs when an element is
//   needed (a copy to the CPU, an operator that cannot be recorded), when a point of the stream is
//   waited for or recorded by an event, at mark_step, and when it has become too long.
// - A capture (torch.hpu.HPUGraph) records the calls of one stream between its begin and its end.
//   It runs when it is replayed; whatever would have to run in between is an error. A stream that
//   waits for an event of a capture joins it: its calls are recorded there too until the end.
//
// A recording belongs to a stream and not to a thread, because autograd runs the backward of a
// stream's calls on a thread of its own.
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backend/runtime/stream.h"
#include "backend/torch/device/pending_storage.h"
#include "backend/torch/pytorch/unstable_torch.h"
#include "backend/torch/record/call_rule.h"
#include "backend/torch/record/recorded_program.h"
#include "backend/torch/record/recording.h"
#include "backend/torch/record/replayable_call.h"
#include "backend/torch/record/replayable_graph.h"

namespace hpu::torch_backend {

// Thread-safe. A thread that waits for it gives the GIL to others.
class Recorder final : public PendingWork, public runtime::RecordedWork {
 public:
  static Recorder& Get();

  // Returns whether calls of this thread on its current stream are recorded.
  bool Records() const;
  // Returns whether the process is in lazy mode.
  static bool IsLazy();
  // Records a call and replaces its arguments on the stack by its results. Returns false, and does
  // nothing, if the call must run now; what it touches has been queued then.
  bool Record(RuleTable& rules, const c10::OperatorHandle& op, size_t argument_count,
              torch::jit::Stack* stack);

  void StartLazyMode(size_t most_calls);
  // Gives up everything that is recorded: at the end of the process nobody needs it.
  void Stop();
  // Queues what has been recorded for a stream, or for all streams that have no capture.
  // `why` is for the log.
  void QueueStream(std::optional<uint32_t> stream, const char* why);

  // Begins a capture on the current stream, and returns its number. Throws if the stream has one.
  uint64_t BeginCapture();
  // Ends a capture. Throws if it has been given up, or did not begin on the current stream.
  std::unique_ptr<ReplayableGraph> EndCapture(uint64_t capture);
  // Does so with the capture of a call; the arguments are those of ReplayableCall.
  std::unique_ptr<ReplayableCall> EndCall(uint64_t capture, const std::vector<at::Tensor>& given,
                                          const std::vector<at::Tensor>& results,
                                          bool differentiable);
  // Gives a capture up if it has not ended, on whatever streams it is.
  void AbandonCapture(uint64_t capture);
  bool IsCapturing() const;

  // By name: how many recordings have run, how many were compiled for it, and so on.
  std::map<std::string, uint64_t> Counts() const;
  void ForgetPrograms();

  bool LeavesOutMemory() const override { return Records(); }
  const void* Capture() const override;
  void Queue(const c10::StorageImpl& storage, const char* who) override;
  void RefuseInCapture(const std::string& who) override;

  void QueueWorkOf(const runtime::Stream* stream) override;
  uint64_t CaptureOf(const runtime::Stream& stream) override;
  bool JoinCapture(const runtime::Stream& stream, uint64_t capture) override;

 private:
  // A capture that has not ended.
  struct OpenCapture {
    uint64_t number = 0;
    uint32_t origin = 0;  // the stream on which it began
    std::unique_ptr<Recording> recording = std::make_unique<Recording>(/*is_capture=*/true);
    std::string broken;  // why it could not go on: "item() cannot be part of it at model.py:12"
  };
  struct StreamState {
    uint32_t stream = 0;
    std::unique_ptr<Recording> lazy;       // null if nothing is recorded outside of captures
    std::shared_ptr<OpenCapture> capture;  // null if the stream is in none

    Recording* recording() const {
      return capture == nullptr ? lazy.get() : capture->recording.get();
    }
  };
  class Lock;

  // Ends a capture and returns what it has recorded. The caller holds the mutex.
  std::unique_ptr<Recording> TakeCapture(uint64_t capture);
  // Returns the state of this thread's current stream.
  StreamState& CurrentState();
  // Takes all streams out of a capture. The caller holds the mutex.
  void Leave(const std::shared_ptr<OpenCapture>& capture);
  // Runs the recording of a stream that has no capture; `why` is for the log. The caller holds the
  // mutex.
  void Run(StreamState& state, const char* why);
  void RunRecording(Recording& recording);
  void CallByCall(Recording& recording, const std::string& why);
  [[noreturn]] void Refuse(OpenCapture& capture, const std::string& what);

  mutable std::recursive_mutex mutex_;
  std::map<uint32_t, StreamState> streams_;
  std::atomic<int> open_captures_{0};  // read without the mutex where nothing is captured
  SignatureMap<ProgramsOfRecording> programs_;
  uint64_t last_capture_ = 0;
  size_t most_calls_ = 0;
  // How many recordings in a row have been compiled, none of which has come again.
  int compiled_in_vain_ = 0;
  uint64_t runs_ = 0;
  uint64_t calls_run_ = 0;
  uint64_t compilations_ = 0;
  uint64_t runs_by_call_ = 0;
};

// Adds the functions of lazy mode and the class ReplayableGraph.
void BindRecorder(pybind11::module_& module);

}  // namespace hpu::torch_backend
