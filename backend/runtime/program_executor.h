// A function of a program made ready to run: recipes loaded, launch tables laid out, addresses
// reduced to "base + offset". The caller owns inputs and outputs and walks the steps; LaunchSteps
// are run here.
//
//   ExecutionFrame: one base address per slot, filled by the caller before the first launch
//     [ inputs | buffers | constants | program tensors made by eager steps ]
//   Constants are filled by BeginCall, the buffers that nobody outside sees by the step that is the
//   first to touch them.
//
// Slots of inputs hold the address of the input's first element; of eager tensors likewise.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/runtime/recipe_cache.h"
#include "base/status.h"
#include "program/program.h"
#include "synapse/include/synapse_api_types.h"

namespace hpu::runtime {

class Device;
class Stream;
struct DeviceBlock;

class ProgramExecutor {
 public:
  // One executor per function. `program`: container bytes (program/program.h); `recipes`:
  // serialised recipes in the program's order. All verified before. `name`: what the program is
  // called in messages. Loads the library, acquires no device. UNIMPLEMENTED: a step, an input or
  // an output of a kind that nothing here runs.
  static absl::StatusOr<std::vector<std::unique_ptr<ProgramExecutor>>> Create(
      std::span<const uint8_t> program, std::span<const std::span<const uint8_t>> recipes,
      const std::string& name);
  ~ProgramExecutor();
  ProgramExecutor(const ProgramExecutor&) = delete;
  ProgramExecutor& operator=(const ProgramExecutor&) = delete;

  const std::string& name() const { return name_; }
  const Program& program() const { return *program_; }
  const ProgramFunction& function() const { return program_->functions[function_]; }
  uint32_t launch_count() const { return static_cast<uint32_t>(launches_.size()); }
  uint32_t eager_count() const;

  uint32_t slot_count() const { return slot_count_; }
  uint32_t InputSlot(uint32_t input) const { return input; }
  uint32_t BufferSlot(uint32_t buffer) const {
    return static_cast<uint32_t>(function().inputs.size()) + buffer;
  }
  uint32_t ConstantSlot(uint32_t constant) const {
    return BufferSlot(static_cast<uint32_t>(function().buffer_bytes.size())) + constant;
  }
  uint32_t EagerSlot(uint32_t tensor) const {
    return ConstantSlot(static_cast<uint32_t>(program_->constants.size())) + tensor;
  }
  uint32_t SlotOf(uint32_t tensor) const;

  // True if an output or an eager step refers to the buffer: then the caller allocates it and sets
  // its slot before the first step that touches it. The others live from the first to the last
  // step that touches them and are handled here.
  bool BufferIsVisible(uint32_t buffer) const { return buffer_is_visible_[buffer]; }
  // Visible buffers that the step is the first to touch; behind the last step: those that none
  // does.
  const std::vector<uint32_t>& VisibleFrom(uint32_t step) const { return steps_[step].visible; }
  // The last step that touches the input's memory; nullopt: none does, or an eager one, whose
  // results may be views of it.
  std::optional<uint32_t> LastStepOf(uint32_t input) const { return last_step_of_input_[input]; }

  // Memory of one call that nobody outside sees; given back, in stream order, at the end of its
  // life if no step did.
  class Call {
   public:
    Call() = default;
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    friend class ProgramExecutor;
    Device* device_ = nullptr;
    std::vector<DeviceBlock*> blocks_;  // by buffer, while it lives; empty: the function has none
  };

  // Fills the slots of constants. The first call copies the constants and const sections to the
  // device. `slots` has slot_count() entries.
  absl::Status BeginCall(Stream& stream, std::span<uint64_t> slots, Call* call);
  // Queues function().steps[step], which is no EagerStep. Asynchronous. Steps run in order.
  absl::Status RunStep(uint32_t step, Stream& stream, std::span<uint64_t> slots, Call* call);
  // Runs a program without eager steps from the input and visible-buffer slots set by the caller.
  absl::Status Run(Stream& stream, std::span<uint64_t> slots);

  // Device address of a constant; 0 before the first BeginCall.
  uint64_t ConstantAddress(uint32_t constant) const;

 private:
  struct Patch {  // table[entry].pTensorAddress = slots[slot] + offset
    uint32_t entry;
    uint32_t slot;
    uint64_t offset;
  };
  struct PreparedLaunch {
    std::shared_ptr<LoadedRecipe> recipe;
    std::vector<synLaunchTensorInfo> table;
    std::vector<Patch> patches;
  };

  // Buffers by the step that is the first or the last to touch them.
  struct StepBuffers {
    std::vector<uint32_t> visible;  // from here on
    std::vector<uint32_t> hidden;   // from here on
    std::vector<uint32_t> dead;     // hidden ones, behind it
  };

  ProgramExecutor(std::string name, std::shared_ptr<const Program> program, uint32_t function)
      : name_(std::move(name)), program_(std::move(program)), function_(function) {}
  absl::Status Prepare(std::span<const std::span<const uint8_t>> recipes);
  void PlanBuffers();
  // Each kind of step that runs has an overload of both; eager steps are the caller's.
  absl::Status Prepare(const LaunchStep& step);
  absl::Status Prepare(const EagerStep&) { return absl::OkStatus(); }
  template <typename OtherStep>
  absl::Status Prepare(const OtherStep& step) {
    return Unimplemented("this build runs no ", step.kName, " steps");
  }
  absl::Status Execute(const LaunchStep&, uint32_t step, Stream& stream,
                       std::span<const uint64_t> slots);
  template <typename OtherStep>
  absl::Status Execute(const OtherStep& other, uint32_t step, Stream&, std::span<const uint64_t>) {
    return Internal("program ", name_, ": step ", step, " (", other.kName, ") is not run here");
  }
  absl::Status PlaceConstants(Stream& stream);

  const std::string name_;
  const std::shared_ptr<const Program> program_;
  const uint32_t function_;
  std::vector<std::shared_ptr<LoadedRecipe>>
      recipes_;  // of the program; null: not of this function
  std::vector<PreparedLaunch> launches_;
  std::vector<uint32_t> launch_of_step_;  // index into launches_; unused for eager steps
  std::vector<bool> buffer_is_visible_;
  std::vector<bool> constant_is_read_;  // by the program's constants
  std::vector<StepBuffers> steps_;      // by step, and one behind the last
  std::vector<std::optional<uint32_t>> last_step_of_input_;
  bool hides_buffers_ = false;
  uint32_t slot_count_ = 0;

  std::mutex mutex_;  // guards the tables while one is patched and copied, and the placing below
  bool placed_ = false;
  std::vector<DeviceBlock*> constants_;  // null for empty ones
};

}  // namespace hpu::runtime
