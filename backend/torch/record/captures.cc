// The captures of the recorder: a capture begins on one stream, others join it by its events, and
// it ends where it began.
#include <utility>

#include "backend/runtime/bridge_log.h"
#include "backend/runtime/stream.h"
#include "backend/torch/device/run_now.h"
#include "backend/torch/programs/call_line.h"
#include "backend/torch/record/recorder.h"
#include "backend/torch/record/recorder_lock.h"

namespace hpu::torch_backend {

void Recorder::Refuse(OpenCapture& capture, const std::string& what) {
  const uint32_t line = FindLineOfCaller();
  const std::string why = WithLine(what + " cannot be part of it", line);
  if (capture.broken.empty()) capture.broken = why;
  BRIDGE_LOG(kLazy, kDebug, "gave up capture " << capture.number << ": " << WithLine(what, line));
  TORCH_CHECK(false, "a graph is captured, and ", why, "; the capture has been given up");
}

void Recorder::RefuseInCapture(const std::string& who) {
  if (open_captures_.load(std::memory_order_relaxed) == 0) return;
  const Lock lock(mutex_);
  StreamState& state = CurrentState();
  if (state.capture != nullptr) Refuse(*state.capture, who);
}

uint64_t Recorder::CaptureOf(const runtime::Stream& stream) {
  if (open_captures_.load(std::memory_order_relaxed) == 0) return 0;
  const Lock lock(mutex_);
  const auto state = streams_.find(stream.id());
  const bool captured = state != streams_.end() && state->second.capture != nullptr;
  return captured ? state->second.capture->number : 0;
}

bool Recorder::JoinCapture(const runtime::Stream& stream, uint64_t capture) {
  const Lock lock(mutex_);
  std::shared_ptr<OpenCapture> joined;
  for (const auto& [id, state] : streams_) {
    if (state.capture != nullptr && state.capture->number == capture) joined = state.capture;
  }
  if (joined == nullptr) return false;
  StreamState& state = streams_[stream.id()];
  state.stream = stream.id();
  if (state.capture == joined) return true;
  if (state.capture != nullptr) Refuse(*state.capture, "a wait for an event of another capture");
  Run(state, "the stream joins a capture");
  state.capture = std::move(joined);
  BRIDGE_LOG(kLazy, kDebug, "stream " << state.stream << " joined capture " << capture);
  return true;
}

void Recorder::Leave(const std::shared_ptr<OpenCapture>& capture) {
  const std::shared_ptr<OpenCapture> kept = capture;  // it may be a stream's
  for (auto& [id, state] : streams_) {
    if (state.capture == kept) state.capture.reset();
  }
  --open_captures_;
}

const void* Recorder::Capture() const {
  if (open_captures_.load(std::memory_order_relaxed) == 0) return nullptr;
  const Lock lock(mutex_);
  const auto state = streams_.find(runtime::CurrentStreamId());
  if (state == streams_.end() || state->second.capture == nullptr) return nullptr;
  return state->second.recording();
}

bool Recorder::IsCapturing() const {
  const Lock lock(mutex_);
  const auto state = streams_.find(runtime::CurrentStreamId());
  return state != streams_.end() && state->second.capture != nullptr;
}

uint64_t Recorder::BeginCapture() {
  const Lock lock(mutex_);
  StreamState& state = CurrentState();
  TORCH_CHECK(state.capture == nullptr, "a graph is already captured on this stream");
  Run(state, "a capture begins");
  StartLeavingOutMemory();
  state.capture = std::make_shared<OpenCapture>();
  state.capture->origin = state.stream;
  state.capture->number = ++last_capture_;
  ++open_captures_;
  BRIDGE_LOG(kLazy, kDebug,
             "began capture " << state.capture->number << " on stream " << state.stream);
  return state.capture->number;
}

std::unique_ptr<Recording> Recorder::TakeCapture(uint64_t capture) {
  const StreamState& state = CurrentState();
  const std::shared_ptr<OpenCapture> ended = state.capture;
  TORCH_CHECK(ended != nullptr && ended->number == capture,
              "this HPUGraph has no capture on the current stream");
  TORCH_CHECK(ended->origin == state.stream,
              "the current stream has joined this capture; end it on the stream where it began");
  Leave(ended);
  if (!ended->broken.empty()) {
    ended->recording->Lose("the capture that makes it was given up: " + ended->broken);
    TORCH_CHECK(false, "the capture was given up, because ", ended->broken);
  }
  return std::move(ended->recording);
}

std::unique_ptr<ReplayableGraph> Recorder::EndCapture(uint64_t capture) {
  const Lock lock(mutex_);
  std::unique_ptr<Recording> recording = TakeCapture(capture);
  const CallsRunNow run_now;
  std::vector<uint32_t> filled = recording->HeldValues();
  return std::make_unique<ReplayableGraph>(std::move(recording), std::move(filled));
}

std::unique_ptr<ReplayableCall> Recorder::EndCall(uint64_t capture,
                                                  const std::vector<at::Tensor>& given,
                                                  const std::vector<at::Tensor>& results,
                                                  bool differentiable) {
  const Lock lock(mutex_);
  const std::unique_ptr<Recording> recording = TakeCapture(capture);
  const CallsRunNow run_now;
  return std::make_unique<ReplayableCall>(*recording, recording->HeldValues(), given, results,
                                          differentiable);
}

void Recorder::AbandonCapture(uint64_t capture) {
  const Lock lock(mutex_);
  for (auto& [id, state] : streams_) {
    if (state.capture == nullptr || state.capture->number != capture) continue;
    Leave(state.capture);
    return;
  }
}

}  // namespace hpu::torch_backend
