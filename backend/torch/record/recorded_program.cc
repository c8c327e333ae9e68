#include "backend/torch/record/recorded_program.h"

#include <algorithm>
#include <bit>
#include <set>

#include "backend/runtime/copy.h"
#include "backend/runtime/launch_history.h"
#include "backend/torch/device/allocator.h"
#include "backend/torch/device/errors.h"
#include "backend/torch/eager/kernels.h"
#include "backend/torch/programs/call_line.h"
#include "backend/torch/record/call_program.h"
#include "backend/torch/record/front_end.h"
#include "backend/torch/record/recording_structure.h"

namespace hpu::torch_backend {
namespace {

namespace py = pybind11;
using c10::IValue;

// A sequence of calls with so many programs that were not used again has numbers that vary and that
// no program takes as an input. From then on only numbers that come again are compiled for, and
// none if even those programs are not used again before they are forgotten.
constexpr size_t kMostInVain = 8;
constexpr size_t kMostPrograms = 32;
constexpr size_t kMostNumbersSeen = 4096;

bool SameNumber(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

// Returns the name of a storage in the call of Python: UntypedStorage._cdata.
uintptr_t NameOf(const c10::Storage& storage) {
  return reinterpret_cast<uintptr_t>(storage.unsafeGetStorageImpl());
}

// By call: operator, overload, arguments by position, arguments by name, and by tensor among the
// results the tensor that a call makes, or None, and how many numbers it has in the recording.
py::list CallsOf(const Recording& recording) {
  py::list calls;
  for (size_t i = 0; i < recording.calls().size(); ++i) {
    const Recording::Call& call = recording.calls()[i];
    const CallRule& rule = *call.rule;
    const std::vector<at::Tensor> tensors = recording.TensorsOf(call);
    const double* number = recording.numbers().data() + call.first_number;
    std::vector<IValue> arguments;
    for (const ArgumentTemplate& argument : rule.arguments) {
      arguments.push_back(argument.Fill(tensors, number));
    }
    py::list results;
    uint32_t value = call.first_result;
    for (const CallRule::Result& result : rule.results) {
      if (result.kind == CallRule::Result::Kind::kNew) {
        results.append(py::cast(result.form.Over(recording.values()[value++].storage, 0)));
      } else {
        results.append(py::none());
      }
    }
    const auto [positional, named] = ToPythonCall(rule.op, arguments);
    calls.append(py::make_tuple(rule.op.schema().name(), rule.op.schema().overload_name(),
                                positional, named, results,
                                recording.EndOfNumbers(i) - call.first_number));
  }
  return calls;
}

// Returns the number of a text that names the program and its calls, with their lines if those are
// wanted.
uint32_t PurposeOf(const CompiledFunction& function, const Recording& recording) {
  constexpr size_t kMostNamed = 8;
  const std::vector<Recording::Call>& calls = recording.calls();
  std::string text = function.name() + " (";
  for (size_t i = 0; i < std::min(calls.size(), kMostNamed); ++i) {
    text += (i == 0 ? "" : ", ") + WithLine(ShortName(calls[i].rule->op.schema()), calls[i].line);
  }
  if (calls.size() > kMostNamed) {
    text += " and " + std::to_string(calls.size() - kMostNamed) + " more";
  }
  return runtime::NumberOfText(text + ")");
}

std::shared_ptr<const RecordedProgram> WithoutProgram() {
  static const auto* answer = [] {
    auto made = std::make_shared<RecordedProgram>();
    made->refusal = "numbers of its calls vary that no program takes as an input";
    return new std::shared_ptr<const RecordedProgram>(std::move(made));
  }();
  return *answer;
}

}  // namespace

int64_t RecordedProgram::Input::OffsetIn(const Recording& recording) const {
  const int64_t bytes = recording.values()[value].first_byte + distance;
  return bytes / static_cast<int64_t>(c10::elementSize(form.dtype));
}

bool RecordedProgram::Input::LiesIn(const Recording& recording) const {
  const Recording::Value& in = recording.values()[value];
  if (in.kind == Recording::Value::Kind::kHost) return true;
  const int64_t first = in.first_byte + distance;
  return first >= 0 && first % static_cast<int64_t>(c10::elementSize(form.dtype)) == 0 &&
         static_cast<size_t>(first) + form.StorageBytes() <= in.storage.nbytes();
}

bool RecordedProgram::IsFor(const Recording& recording) const {
  const std::vector<double>& numbers = recording.numbers();
  return std::ranges::all_of(fixed,
                             [&](const auto& number) {
                               return SameNumber(numbers[number.first], number.second);
                             }) &&
         std::ranges::all_of(inputs, [&](const Input& input) { return input.LiesIn(recording); });
}

std::vector<at::Tensor> RecordedProgram::Run(const Recording& recording) const {
  std::vector<at::Tensor> tensors;
  tensors.reserve(inputs.size() + 1);
  for (const Input& input : inputs) {
    const Recording::Value& value = recording.values()[input.value];
    tensors.push_back(value.kind == Recording::Value::Kind::kHost
                          ? value.host
                          : input.form.Over(value.storage, input.OffsetIn(recording)));
  }
  if (!varying.empty()) {
    std::vector<float> numbers;
    for (const uint32_t number : varying) {
      numbers.push_back(static_cast<float>(recording.numbers()[number]));
    }
    c10::Storage storage = NewStorage(numbers.size() * sizeof(float));
    Check(runtime::CopyToDevice(CurrentStream(), AddressOf(storage.data()), numbers.data(),
                                storage.nbytes()));
    const auto count = static_cast<int64_t>(numbers.size());
    tensors.push_back(TensorForm(at::kFloat, {count}, {1}).Over(std::move(storage), 0));
  }
  c10::SmallVector<const at::Tensor*, 64> given;
  for (const at::Tensor& tensor : tensors) given.push_back(&tensor);
  CompiledFunction& function = program->forward();
  given.resize(function.function().inputs.size(), nullptr);  // the generator's state
  const runtime::LaunchPurpose for_calls(
      runtime::WantsSourceLines() ? PurposeOf(function, recording) : purpose);
  return function.Run(given);
}

std::shared_ptr<const RecordedProgram> CompileRecording(const Recording& recording,
                                                        const std::vector<uint32_t>& filled,
                                                        const std::vector<uint32_t>& varying,
                                                        Results results) {
  auto result = std::make_shared<RecordedProgram>();
  const FrontEnd front_end;
  FrontEnd::Ask([&] {
    const auto& values = recording.values();
    py::list inputs;
    std::vector<uint32_t> input_values;
    for (uint32_t i = 0; i < values.size(); ++i) {
      if (values[i].kind == Recording::Value::Kind::kHost) {
        inputs.append(py::make_tuple(py::cast(values[i].host), 0, 0, false, false));
      } else if (values[i].kind == Recording::Value::Kind::kInput) {
        inputs.append(py::make_tuple(NameOf(values[i].storage), values[i].storage.nbytes(),
                                     values[i].first_byte,
                                     values[i].parameter == Recording::Parameter::kFixed,
                                     values[i].parameter == Recording::Parameter::kTrained));
      } else {
        continue;
      }
      input_values.push_back(i);
    }
    py::list outputs;
    for (const uint32_t value : filled) {
      outputs.append(py::make_tuple(NameOf(values[value].storage), values[value].storage.nbytes()));
    }
    // This is an Answer of habana_frameworks/torch/lazy/recordings.py.
    const py::object answer = front_end.compile_recording(
        CallsOf(recording), inputs, outputs, varying, results == Results::kInPlace,
        py::bytes(StructureOf(recording, filled)), recording.numbers());
    TakeProgram(answer, *result);
    result->varying = answer.attr("varying").cast<std::vector<uint32_t>>();
    for (const py::handle input : answer.attr("inputs")) {
      const auto sizes = input.attr("sizes").cast<std::vector<int64_t>>();
      const auto strides = input.attr("strides").cast<std::vector<int64_t>>();
      const auto place = input.attr("place").cast<size_t>();
      // An input in place is a value that the program fills.
      const uint32_t value =
          place < input_values.size() ? input_values[place] : filled[place - input_values.size()];
      const auto dtype = input.attr("dtype").cast<at::ScalarType>();
      const int64_t bytes =
          input.attr("offset").cast<int64_t>() * static_cast<int64_t>(c10::elementSize(dtype));
      result->inputs.push_back({value, {dtype, sizes, strides}, bytes - values[value].first_byte});
    }
  });
  const std::set<uint32_t> inputs(result->varying.begin(), result->varying.end());
  if (result->program != nullptr) {
    result->purpose = PurposeOf(result->program->forward(), recording);
  }
  for (uint32_t i = 0; i < recording.numbers().size(); ++i) {
    if (!inputs.contains(i)) result->fixed.emplace_back(i, recording.numbers()[i]);
  }
  return result;
}

bool ProgramsOfRecording::NumbersComeAgain(const Recording& recording,
                                           const std::set<uint32_t>& varying) {
  size_t hash = recording.numbers().size();
  for (uint32_t i = 0; i < recording.numbers().size(); ++i) {
    if (!varying.contains(i))
      hash = c10::hash_combine(hash, std::bit_cast<uint64_t>(recording.numbers()[i]));
  }
  if (numbers_seen_.size() >= kMostNumbersSeen) numbers_seen_.clear();
  return !numbers_seen_.insert(hash).second;
}

std::shared_ptr<const RecordedProgram> ProgramsOfRecording::Get(const Recording& recording,
                                                                const std::vector<uint32_t>& filled,
                                                                uint64_t* compilations) {
  for (Known& known : programs_) {
    if (!known.program->IsFor(recording)) continue;
    if (!std::exchange(known.used_again, true)) --compiled_in_vain_;
    return known.program;
  }
  const auto now = std::chrono::steady_clock::now();
  if (passing_ != nullptr && now - passing_at_ < kRetryAfter) return passing_;
  // Numbers that have differed once are inputs from then on, and an optimizer's from the first on.
  const std::vector<uint32_t> updates = recording.NumbersOfUpdates();
  std::set<uint32_t> varying(updates.begin(), updates.end());
  for (const auto& [program, used_again] : programs_) {
    varying.insert(program->varying.begin(), program->varying.end());
    for (const auto& [number, value] : program->fixed) {
      if (!SameNumber(recording.numbers()[number], value)) varying.insert(number);
    }
  }
  std::set<uint32_t> inputs;
  if (!programs_.empty()) {
    inputs.insert(programs_.back().program->varying.begin(),
                  programs_.back().program->varying.end());
  }
  const bool come_again = NumbersComeAgain(recording, inputs);
  const size_t most_in_vain = come_again ? 2 * kMostPrograms : kMostInVain;
  if (compiled_in_vain_ >= most_in_vain) return WithoutProgram();
  ++*compilations;
  auto made =
      CompileRecording(recording, filled, {varying.begin(), varying.end()}, Results::kReturned);
  if (!made->lasting) {
    passing_ = made;
    passing_at_ = now;
    return made;
  }
  if (programs_.size() >= kMostPrograms) programs_.erase(programs_.begin());
  programs_.push_back({made});
  ++compiled_in_vain_;
  return made;
}

}  // namespace hpu::torch_backend
