#include "backend/runtime/program_executor.h"

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "backend/runtime/copy.h"
#include "backend/runtime/counters.h"
#include "backend/runtime/device.h"
#include "backend/runtime/device_allocator.h"
#include "backend/runtime/launch_history.h"
#include "backend/runtime/launch_modes.h"
#include "backend/runtime/syn_status.h"

namespace hpu::runtime {
namespace {

// Returns a short name of a recipe for messages.
std::string ShortName(const RecipeRef& recipe) { return ToHex(recipe.digest).substr(0, 8); }

// The scratch memory of one launch.
class Workspace {
 public:
  explicit Workspace(DeviceAllocator& allocator) : allocator_(allocator) {}
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() {
    if (block_ != nullptr) allocator_.Free(block_);
  }

  absl::Status Allocate(uint64_t bytes, Stream& stream) {
    if (bytes == 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(block_, allocator_.Allocate(bytes, stream));
    return absl::OkStatus();
  }
  uint64_t address() const { return block_ == nullptr ? 0 : block_->address; }

 private:
  DeviceAllocator& allocator_;
  DeviceBlock* block_ = nullptr;
};

// Refuses a program that the format allows and that nothing here can run. The caller of the program
// gives its inputs, except for the generator's state, by position.
absl::Status CheckSupported(const Program& program) {
  const std::vector<ProgramInput>& inputs = program.functions[0].inputs;
  const auto is_state = [](const ProgramInput& input) {
    return input.kind == ProgramInput::Kind::kSeed || input.kind == ProgramInput::Kind::kOffset;
  };
  if (!std::is_partitioned(inputs.begin(), inputs.end(), std::not_fn(is_state))) {
    return Unimplemented("this build takes random state behind all other inputs");
  }
  return absl::OkStatus();
}

// Returns by step the step with which it ends: for a collective its wait, for others themselves.
std::vector<uint32_t> EndsOfSteps(const ProgramFunction& function) {
  std::vector<uint32_t> ends(function.steps.size());
  for (uint32_t i = 0; i < ends.size(); ++i) {
    ends[i] = i;
    if (const auto* wait = std::get_if<WaitStep>(&function.steps[i])) ends[wait->step] = i;
  }
  return ends;
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<ProgramExecutor>>> ProgramExecutor::Create(
    std::span<const uint8_t> program, std::span<const std::span<const uint8_t>> recipes,
    const std::string& name) {
  const std::string context = "program " + name;
  absl::StatusOr<Program> decoding = DecodeProgram(program);
  RETURN_IF_ERROR_AT(decoding.status(), context);
  const auto decoded = std::make_shared<const Program>(*std::move(decoding));
  RETURN_IF_ERROR_AT(CheckSupported(*decoded), context);
  if (recipes.size() != decoded->recipes.size()) {
    return InvalidArgument(context, ": ", recipes.size(), " recipes given, ",
                           decoded->recipes.size(), " needed");
  }
  std::vector<std::unique_ptr<ProgramExecutor>> executors;
  for (uint32_t i = 0; i < decoded->functions.size(); ++i) {
    const std::string called = i == 0 ? name : name + " " + decoded->functions[i].name;
    executors.emplace_back(new ProgramExecutor(called, decoded, i));
    RETURN_IF_ERROR_AT(executors.back()->Prepare(recipes), "program " + called);
  }
  return executors;
}

absl::Status ProgramExecutor::Prepare(std::span<const std::span<const uint8_t>> recipes) {
  recipes_.resize(recipes.size());
  for (const Step& step : function().steps) {
    const auto* launch = std::get_if<LaunchStep>(&step);
    if (launch == nullptr || recipes_[launch->recipe] != nullptr) continue;
    const RecipeRef& reference = program_->recipes[launch->recipe];
    ASSIGN_OR_RETURN(recipes_[launch->recipe],
                     LoadRecipe(reference.digest, ShortName(reference), recipes[launch->recipe]));
  }
  PlanBuffers();
  const std::vector<Step>& steps = function().steps;
  for (size_t i = 0; i < steps.size(); ++i) {
    launch_of_step_.push_back(static_cast<uint32_t>(launches_.size()));
    const auto* launch = std::get_if<LaunchStep>(&steps[i]);
    if (launch != nullptr) RETURN_IF_ERROR_AT(Prepare(*launch), "step " + std::to_string(i));
  }
  return absl::OkStatus();
}

ProgramExecutor::~ProgramExecutor() {
  // Any stream may still read the constants. If something failed there, it is reported where that
  // work is waited for.
  if (constants_.empty() || !Device::Get().Synchronize().ok()) return;
  for (DeviceBlock* block : constants_) {
    if (block != nullptr) Device::Get().allocator().Free(block);
  }
}

uint32_t ProgramExecutor::eager_count() const {
  const std::vector<Step>& steps = function().steps;
  return static_cast<uint32_t>(std::count_if(steps.begin(), steps.end(), [](const Step& step) {
    return std::holds_alternative<EagerStep>(step);
  }));
}

uint32_t ProgramExecutor::SlotOf(uint32_t tensor) const {
  const ProgramTensor& entry = function().tensors[tensor];
  switch (entry.placement) {
    case Placement::kInput:
      return InputSlot(entry.index);
    case Placement::kBuffer:
      return BufferSlot(entry.index);
    case Placement::kConstant:
      return ConstantSlot(entry.index);
    case Placement::kEager:
      break;
  }
  return EagerSlot(tensor);
}

void ProgramExecutor::PlanBuffers() {
  slot_count_ = EagerSlot(static_cast<uint32_t>(function().tensors.size()));
  std::vector<bool> is_output(function().buffer_bytes.size());
  for (const ProgramOutput& output : function().outputs) {
    if (output.kind != ProgramOutput::Kind::kTensor) continue;
    const ProgramTensor& entry = function().tensors[output.index];
    if (entry.placement == Placement::kBuffer) is_output[entry.index] = true;
  }
  buffer_is_visible_ = is_output;
  for (const Step& step : function().steps) {
    if (std::holds_alternative<LaunchStep>(step)) continue;
    ForEachTensorNeeded(step, [&](uint32_t tensor) {
      const ProgramTensor& entry = function().tensors[tensor];
      if (entry.placement == Placement::kBuffer) buffer_is_visible_[entry.index] = true;
    });
  }
  constant_is_read_.resize(program_->constants.size());
  for (const ProgramTensor& tensor : function().tensors) {
    if (tensor.placement == Placement::kConstant) constant_is_read_[tensor.index] = true;
  }
  const auto count = static_cast<uint32_t>(function().steps.size());
  std::vector<uint32_t> first(function().buffer_bytes.size(), count);
  std::vector<uint32_t> last(first.size());
  last_step_of_input_.resize(function().inputs.size());
  const std::vector<uint32_t> ends = EndsOfSteps(function());
  for (uint32_t step = 0; step < count; ++step) {
    ForEachTensorNeeded(function().steps[step], [&](uint32_t tensor) {
      const ProgramTensor& entry = function().tensors[tensor];
      if (entry.placement == Placement::kInput) {
        std::optional<uint32_t>& known = last_step_of_input_[entry.index];
        known = std::max(known.value_or(0), ends[step]);
      }
      if (entry.placement != Placement::kBuffer) return;
      first[entry.index] = std::min(first[entry.index], step);
      last[entry.index] = std::max(last[entry.index], ends[step]);
    });
  }
  for (const Step& step : function().steps) {
    if (!std::holds_alternative<EagerStep>(step)) continue;
    ForEachTensorNeeded(step, [&](uint32_t tensor) {
      const ProgramTensor& entry = function().tensors[tensor];
      if (entry.placement == Placement::kInput) last_step_of_input_[entry.index].reset();
    });
  }
  steps_.resize(count + 1);
  for (uint32_t i = 0; i < first.size(); ++i) {
    if (buffer_is_visible_[i]) {
      steps_[first[i]].visible.push_back(i);
      if (!is_output[i]) steps_[last[i]].released.push_back(i);
    } else if (first[i] < count) {
      steps_[first[i]].hidden.push_back(i);
      steps_[last[i]].dead.push_back(i);
      hides_buffers_ = true;
    }
  }
}

absl::Status ProgramExecutor::Prepare(const LaunchStep& step) {
  PreparedLaunch launch;
  launch.recipe = recipes_[step.recipe];
  launch.purpose = NumberOfText("program " + name_);
  const std::string context = "recipe " + launch.recipe->name();
  const auto& tensors = launch.recipe->tensors();
  std::unordered_map<std::string_view, uint32_t> entry_of;
  launch.table.resize(tensors.size());
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    entry_of.emplace(tensors[i].name, i);
    launch.table[i].tensorName = tensors[i].name.c_str();
    launch.table[i].tensorType = tensors[i].type;
    launch.table[i].tensorId = tensors[i].id;
  }
  std::vector<bool> bound(tensors.size());
  for (const Binding& binding : step.bindings) {
    const auto found = entry_of.find(binding.tensor_name);
    if (found == entry_of.end()) {
      return InvalidArgument(context, ": the program binds \"", binding.tensor_name,
                             "\", which is not a tensor of the recipe's launch table");
    }
    const ProgramTensor& tensor = function().tensors[binding.tensor];
    const int64_t offset = tensor.placement == Placement::kEager
                               ? 0
                               : tensor.spec.storage_offset * DTypeSize(tensor.spec.dtype);
    launch.patches.push_back(
        {found->second, SlotOf(binding.tensor), static_cast<uint64_t>(offset)});
    bound[found->second] = true;
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!bound[i] && !tensors[i].is_const) {
      return InvalidArgument(context, ": tensor \"", tensors[i].name, "\" is not bound");
    }
  }
  launches_.push_back(std::move(launch));
  return absl::OkStatus();
}

absl::Status ProgramExecutor::PlaceConstants(Stream& stream) {
  constants_.resize(program_->constants.size());
  for (size_t i = 0; i < constants_.size(); ++i) {
    const Bytes& data = program_->constants[i].data;
    if (!constant_is_read_[i] || data.empty() || constants_[i] != nullptr) continue;
    ASSIGN_OR_RETURN(constants_[i], stream.device().allocator().Allocate(data.size(), stream));
    RETURN_IF_ERROR(CopyToDevice(stream, constants_[i]->address, data.data(), data.size()));
  }
  for (PreparedLaunch& launch : launches_) {
    RETURN_IF_ERROR(launch.recipe->PlaceConstSections(stream));
    for (size_t i = 0; i < launch.table.size(); ++i) {
      const LoadedRecipe::Tensor& tensor = launch.recipe->tensors()[i];
      if (tensor.is_const) launch.table[i].pTensorAddress = launch.recipe->ConstAddress(tensor);
    }
  }
  RETURN_IF_ERROR(stream.Synchronize());  // any stream may run the next call
  placed_ = true;
  return absl::OkStatus();
}

absl::Status ProgramExecutor::BeginCall(Stream& stream, std::span<uint64_t> slots, Call* call) {
  {
    std::lock_guard lock(mutex_);
    if (!placed_) {
      RETURN_IF_ERROR_AT(PlaceConstants(stream), "program " + name_ + ": constants");
    }
  }
  for (uint32_t i = 0; i < constants_.size(); ++i) slots[ConstantSlot(i)] = ConstantAddress(i);
  ++GetCounters().programs;
  if (!hides_buffers_) return absl::OkStatus();
  call->device_ = &stream.device();
  call->blocks_.resize(function().buffer_bytes.size());
  return absl::OkStatus();
}

ProgramExecutor::Call::~Call() {
  for (DeviceBlock* block : blocks_) {
    if (block != nullptr) device_->allocator().Free(block);
  }
}

absl::Status ProgramExecutor::RunStep(uint32_t step, Stream& stream, std::span<uint64_t> slots,
                                      Call* call) {
  for (const uint32_t buffer : steps_[step].hidden) {
    const uint64_t bytes = std::max<uint64_t>(function().buffer_bytes[buffer], 1);
    ASSIGN_OR_RETURN(call->blocks_[buffer], stream.device().allocator().Allocate(bytes, stream));
    slots[BufferSlot(buffer)] = call->blocks_[buffer]->address;
  }
  RETURN_IF_ERROR(Execute(step, stream, slots));
  for (const uint32_t buffer : steps_[step].dead) {
    stream.device().allocator().Free(std::exchange(call->blocks_[buffer], nullptr));
  }
  return absl::OkStatus();
}

absl::Status ProgramExecutor::Execute(uint32_t step, Stream& stream,
                                      std::span<const uint64_t> slots) {
  const Step& kind = function().steps[step];
  if (!std::holds_alternative<LaunchStep>(kind)) {
    return Internal("program ", name_, ": step ", step, " (", StepName(kind), ") is not run here");
  }
  Device& device = stream.device();
  RETURN_IF_ERROR(device.CheckUsable());
  PreparedLaunch& launch = launches_[launch_of_step_[step]];
  // The workspace is given back once the launch is queued: anything that this stream puts there
  // runs after the launch.
  Workspace workspace(device.allocator());
  RETURN_IF_ERROR(workspace.Allocate(launch.recipe->workspace_bytes(), stream));
  if (IsCompileOnly()) return absl::OkStatus();
  std::lock_guard lock(mutex_);
  for (const Patch& patch : launch.patches) {
    launch.table[patch.entry].pTensorAddress = slots[patch.slot] + patch.offset;
  }
  const synStatus status = device.api().synLaunchWithExternalEvents(
      stream.handle(), launch.table.data(), static_cast<uint32_t>(launch.table.size()),
      workspace.address(), launch.recipe->handle(), nullptr, 0, 0);
  const uint32_t purpose = LaunchPurpose::Present();
  if (status != synSuccess) {
    std::string what = "program " + name_ + ": recipe " + launch.recipe->name();
    if (purpose != 0) what = TextOfNumber(purpose) + ": " + what;
    return Annotate(ToStatus(device.api(), status, "synLaunchWithExternalEvents"), what);
  }
  stream.launches().Add(purpose != 0 ? purpose : launch.purpose);
  ++GetCounters().launches;
  return GetLaunchModes().wait_for_each ? stream.Synchronize() : absl::OkStatus();
}

absl::Status ProgramExecutor::Run(Stream& stream, std::span<uint64_t> slots) {
  for (const Step& step : function().steps) {
    if (std::holds_alternative<LaunchStep>(step)) continue;
    return InvalidArgument("program ", name_, " has ", StepName(step), " steps; they need PyTorch");
  }
  Call call;
  RETURN_IF_ERROR(BeginCall(stream, slots, &call));
  for (uint32_t step = 0; step < function().steps.size(); ++step) {
    RETURN_IF_ERROR(RunStep(step, stream, slots, &call));
  }
  return absl::OkStatus();
}

uint64_t ProgramExecutor::ConstantAddress(uint32_t constant) const {
  return constant < constants_.size() && constants_[constant] != nullptr
             ? constants_[constant]->address
             : 0;
}

}  // namespace hpu::runtime
