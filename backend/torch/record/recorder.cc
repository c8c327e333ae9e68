#include "backend/torch/record/recorder.h"

#include <atomic>
#include <exception>
#include <utility>

#include "backend/runtime/bridge_log.h"
#include "backend/runtime/copy.h"
#include "backend/runtime/stream.h"
#include "backend/torch/device/allocator.h"
#include "backend/torch/device/errors.h"
#include "backend/torch/device/run_now.h"
#include "backend/torch/eager/cpu_call.h"
#include "backend/torch/eager/fallback.h"
#include "backend/torch/eager/kernels.h"
#include "backend/torch/programs/call_line.h"
#include "backend/torch/programs/gil_release.h"
#include "backend/torch/record/call_by_call.h"
#include "backend/torch/record/front_end.h"

namespace hpu::torch_backend {
namespace {

using c10::IValue;
using torch::jit::Stack;

// A script that makes another sequence of calls each time (a cache that grows with every token)
// would compile all of them. After this many sequences that did not come again, one is compiled
// only when it comes for the second time, and its calls run one by one before.
constexpr int kCompiledInVain = 6;
// The most sequences of calls of which programs are kept.
constexpr size_t kMostSequences = 1024;

constexpr const char* kUnorderedUse =
    "a use of its result on another stream, which waits for no event";

std::atomic<bool> lazy_mode{false};
std::atomic<int> captures{0};

// Makes a stream the thread's current one while it lives.
class OnStream {
 public:
  explicit OnStream(uint32_t stream) : before_(runtime::CurrentStreamId()) {
    runtime::SetCurrentStreamId(stream);
  }
  ~OnStream() { runtime::SetCurrentStreamId(before_); }
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;

 private:
  const uint32_t before_;
};

}  // namespace

// Waits for the mutex without the GIL, because whoever has the mutex may need the GIL to go on.
class Recorder::Lock {
 public:
  explicit Lock(std::mutex& mutex) : lock_(mutex, std::try_to_lock) {
    if (lock_.owns_lock()) return;
    const GilRelease no_gil;
    lock_.lock();
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

Recorder& Recorder::Get() {
  static auto* recorder = [] {
    auto* made = new Recorder;
    SetPendingWork(made);
    runtime::SetRecordedWork(made);
    return made;
  }();
  return *recorder;
}

bool Recorder::Records() const {
  if (CallsRunNow::IsSet() || InFrontEnd()) return false;
  if (lazy_mode.load(std::memory_order_relaxed)) return true;
  return captures.load(std::memory_order_relaxed) > 0 && IsCapturing();
}

bool Recorder::IsLazy() { return lazy_mode.load(std::memory_order_relaxed); }

Recorder::StreamState& Recorder::CurrentState() {
  const uint32_t stream = runtime::CurrentStreamId();
  StreamState& state = streams_[stream];
  state.stream = stream;
  return state;
}

bool Recorder::Record(RuleTable& rules, const c10::OperatorHandle& op, size_t argument_count,
                      Stack* stack) {
  using Numbers = CallSignature::Numbers;
  const auto arguments = torch::jit::last(*stack, argument_count);
  const Numbers numbers = rules.sized_by_numbers() ? Numbers::kInWords : Numbers::kBeside;
  const CallSignature call(arguments, numbers);
  std::shared_ptr<const CallRule> rule;
  if (call.refusal() == nullptr) {
    rule = rules.Find(call);
    if (rule == nullptr) {
      try {
        rule = DescribeCall(op, arguments, call);
      } catch (const python_error&) {
        // The CPU's kernel raises its own error for wrong arguments.
        if (!HostMayCompute() || IsCapturing()) throw;
        rule = RefusedRule(op, "its shape function raised an error");
      }
      rules.Keep(call, rule);
    }
    if (!rule->resizes.empty()) {
      for (const CallRule::Resize& resize : rule->resizes) {
        ResizeTensor(call.tensors()[resize.tensor]->unsafeGetTensorImpl(), resize.sizes,
                     at::IntArrayRef(resize.strides));
      }
      return Record(rules, op, argument_count, stack);  // a call that resizes nothing
    }
  }
  const bool overlaps = rule != nullptr && rule->WritesWhatOverlaps(call);
  const uint32_t line = LineOfCaller();
  const Lock lock(mutex_);
  StreamState& state = CurrentState();
  if (rule == nullptr || !rule->refusal.empty() || overlaps) {
    const std::string reason = overlaps          ? "it writes to memory that overlaps"
                               : rule == nullptr ? call.refusal()
                                                 : rule->refusal;
    const std::string what = op.schema().name() + " (" + reason + ")";
    if (state.capture != nullptr) Refuse(*state.capture, what);
    Run(state, what.c_str());
    return false;
  }
  for (auto& [id, other] : streams_) {
    if (other.recording() == state.recording()) continue;
    for (const at::Tensor* tensor : call.tensors()) {
      if (!IsHpu(*tensor)) continue;
      if (other.recording() == nullptr) break;
      const auto& storage = *tensor->storage().unsafeGetStorageImpl();
      const PendingMemory* pending = PendingOf(storage);
      if (pending == nullptr || pending->recording != other.recording()) continue;
      if (other.capture != nullptr) {
        Refuse(*other.capture, kUnorderedUse);
      }
      Run(other, "another stream uses a result");
    }
  }
  if (state.recording() == nullptr) state.lazy = std::make_unique<Recording>();
  Recording& recording = *state.recording();
  std::vector<IValue> results = recording.Add(std::move(rule), call, line);
  torch::jit::drop(*stack, argument_count);
  for (IValue& result : results) stack->push_back(std::move(result));
  BRIDGE_LOG(kLazy, kTrace,
             "recorded call " << recording.calls().size() << " of stream " << state.stream << ": "
                              << op.schema().name());
  if (state.capture == nullptr && recording.calls().size() >= most_calls_) {
    TORCH_WARN_ONCE("lazy mode runs what it has recorded after ", most_calls_,
                    " operators without mark_step(); call it at the end of each step, or set "
                    "PT_HPU_MAX_COMPOUND_OP_SIZE");
    // The results are on the stack, so they count as held.
    Run(state, "there are too many calls");
  }
  return true;
}

void Recorder::Refuse(OpenCapture& capture, const std::string& what) {
  if (capture.broken.empty()) capture.broken = what;
  BRIDGE_LOG(kLazy, kDebug, "gave up capture " << capture.number << ": " << what);
  TORCH_CHECK(false, "a graph is captured, and ", what,
              " cannot be part of it; the capture has been given up");
}

void Recorder::RefuseInCapture(const std::string& who) {
  if (captures.load(std::memory_order_relaxed) == 0) return;
  const Lock lock(mutex_);
  StreamState& state = CurrentState();
  if (state.capture != nullptr) Refuse(*state.capture, who);
}

void Recorder::Run(StreamState& state, const char* why) {
  if (state.lazy == nullptr || state.lazy->calls().empty()) return;
  BRIDGE_LOG(kLazy, kDebug,
             "flushed " << state.lazy->calls().size() << " calls of stream " << state.stream << ": "
                        << why);
  std::unique_ptr<Recording> recording = std::move(state.lazy);
  const OnStream on_stream(state.stream);
  const CallsRunNow run_now;
  try {
    // Otherwise an optimizer's first step, which makes its state, would have a program of its own.
    const std::vector<uint32_t> fills = recording->StateFills();
    if (!fills.empty()) recording = RunStateFills(*recording, fills);
    RunRecording(*recording);
  } catch (const std::exception& error) {
    recording->Lose(std::string("the recorded calls that make it failed: ") + error.what());
    throw;
  }
}

void Recorder::CallByCall(Recording& recording, const std::string& why) {
  BRIDGE_LOG(kLazy, kDebug, "runs " << recording.calls().size() << " calls one by one: " << why);
  ++runs_by_call_;
  RunCallByCall(recording);
}

void Recorder::RunRecording(Recording& recording) {
  const std::vector<uint32_t> in_parts = recording.GiveMemoryToParts();
  const std::vector<uint32_t> filled = recording.HeldValues();
  SignatureWords words = recording.words();
  for (const std::vector<uint32_t>& values : {in_parts, filled}) {
    words.push_back(~uint64_t{0});
    words.insert(words.end(), values.begin(), values.end());
  }
  ++runs_;
  calls_run_ += recording.calls().size();
  if (programs_.size() >= kMostSequences) programs_.clear();
  ProgramsOfRecording& programs = programs_[std::move(words)];
  if (programs.ComesAgain()) {
    compiled_in_vain_ = 0;
  } else if (compiled_in_vain_ >= kCompiledInVain) {
    return CallByCall(recording, "recordings have not come again, and this one is new");
  } else {
    ++compiled_in_vain_;
  }
  const uint64_t compiled_before = compilations_;
  std::shared_ptr<const RecordedProgram> program;
  try {
    program = programs.Get(recording, filled, &compilations_);
  } catch (const python_error& error) {
    if (!IsException(error)) throw;
    return CallByCall(recording, "one of its calls cannot be captured");
  }
  if (program->program == nullptr) return CallByCall(recording, program->refusal);
  BRIDGE_LOG(kLazy, kDebug,
             (compilations_ > compiled_before ? "compiled " : "replayed ")
                 << program->program->forward().name() << " of " << recording.calls().size()
                 << " calls");
  std::vector<at::Tensor> outputs;
  try {
    outputs = program->Run(recording);
  } catch (const AliasedInputs&) {
    return CallByCall(recording, "a call writes to memory that overlaps with another tensor");
  } catch (const c10::OutOfMemoryError&) {
    // One by one, only what is too large fails. A program that writes inputs may have done so.
    if (program->program->forward().mutates_inputs()) throw;
    return CallByCall(recording, "the program is too large for the memory");
  }
  for (size_t i = 0; i < filled.size(); ++i) {
    FillStorage(recording.values()[filled[i]].storage, std::move(outputs[i]));
  }
  for (const Recording::Call& call : recording.calls()) ++call.rule->counts->recipes;
}

void Recorder::Queue(const c10::StorageImpl& storage, const char* who) {
  if (CallsRunNow::IsSet() || InFrontEnd()) return;
  const Lock lock(mutex_);
  for (auto& [id, state] : streams_) {
    if (state.recording() == nullptr || !state.recording()->Touches(storage)) continue;
    if (state.capture != nullptr) {
      const bool is_ours = state.capture == CurrentState().capture;
      Refuse(*state.capture, is_ours ? who : kUnorderedUse);
    }
    Run(state, who);
  }
}

void Recorder::StartLazyMode(size_t most_calls) {
  const Lock lock(mutex_);
  most_calls_ = most_calls;
  compiled_in_vain_ = 0;
  StartLeavingOutMemory();
  lazy_mode = true;
}

void Recorder::Stop() {
  const Lock lock(mutex_);
  lazy_mode = false;
  captures = 0;
  streams_.clear();
}

void Recorder::QueueStream(std::optional<uint32_t> stream, const char* why) {
  if (CallsRunNow::IsSet() || InFrontEnd()) return;
  if (!lazy_mode.load(std::memory_order_relaxed) && captures.load(std::memory_order_relaxed) == 0) {
    return;
  }
  const Lock lock(mutex_);
  for (auto& [id, state] : streams_) {
    if (stream.has_value() && id != *stream) continue;
    if (state.capture == nullptr) {
      Run(state, why);
    } else if (stream.has_value()) {
      Refuse(*state.capture, "a wait for it or a compiled program");
    }
  }
}

void Recorder::QueueWorkOf(const runtime::Stream* stream) {
  const auto id = stream == nullptr ? std::nullopt : std::optional(stream->id());
  QueueStream(id, "a point of the stream is needed");
}

uint64_t Recorder::CaptureOf(const runtime::Stream& stream) {
  if (captures.load(std::memory_order_relaxed) == 0) return 0;
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
  --captures;
}

const void* Recorder::Capture() const {
  if (captures.load(std::memory_order_relaxed) == 0) return nullptr;
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
  ++captures;
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
    TORCH_CHECK(false, "the capture was given up, because ", ended->broken,
                " cannot be part of it");
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

std::map<std::string, uint64_t> Recorder::Counts() const {
  const Lock lock(mutex_);
  uint64_t recorded = 0;
  for (const auto& [id, state] : streams_) {
    const bool counted = state.capture != nullptr && state.capture->origin != state.stream;
    if (state.recording() != nullptr && !counted) recorded += state.recording()->calls().size();
  }
  return {{"runs", runs_},
          {"calls", calls_run_},
          {"compilations", compilations_},
          {"runs_by_call", runs_by_call_},
          {"recorded", recorded}};
}

void Recorder::ForgetPrograms() {
  SignatureMap<ProgramsOfRecording> forgotten;  // destroying them takes the mutex
  const Lock lock(mutex_);
  programs_.swap(forgotten);
}

}  // namespace hpu::torch_backend
