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
#include "backend/torch/record/call_by_call.h"
#include "backend/torch/record/front_end.h"
#include "backend/torch/record/recorder_lock.h"

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
  return open_captures_.load(std::memory_order_relaxed) > 0 && IsCapturing();
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
  if (rules.takes_numbers()) {
    TakeIntegersAsDoubles(op.schema().arguments(), argument_count, stack);
  }
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
    if (!MayGoOnAfter(error)) throw;
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
  open_captures_ = 0;
  streams_.clear();
}

void Recorder::QueueStream(std::optional<uint32_t> stream, const char* why) {
  if (CallsRunNow::IsSet() || InFrontEnd()) return;
  if (!lazy_mode.load(std::memory_order_relaxed) &&
      open_captures_.load(std::memory_order_relaxed) == 0) {
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
