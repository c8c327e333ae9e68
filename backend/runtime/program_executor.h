// A function of a program that is ready to run: recipes are loaded, launch tables are laid out, and
// addresses are reduced to "base + offset". The caller owns inputs and outputs and walks the steps;
// LaunchSteps are run here.
//
//   ExecutionFrame: one base address per slot, filled by the caller before the first launch
//     [ inputs | buffers | constants | program tensors made by eager steps ]
//   BeginCall fills the constants. Buffers that are not visible outside are filled by the step that
//   is the first to touch them.
//
// The slot of an input holds the address of the input's first element, and so does the slot of an
// eager tensor.
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
  // Returns one executor per function. `program` holds container bytes (program/program.h), and
  // `recipes` holds serialised recipes in the program's order. All of them have been verified.
  // `name` names the program in messages. Loads the library and acquires no device. Returns
  // UNIMPLEMENTED for a step, an input or an output of a kind that nothing here runs.
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

  // Returns true if an output or a step that PyTorch runs refers to the buffer. The caller then
  // allocates it and sets its slot before the first step that touches it. The other buffers live
  // from the first to the last step that touches them and are handled here. A collective touches
  // what it reads and makes until its wait.
  bool BufferIsVisible(uint32_t buffer) const { return buffer_is_visible_[buffer]; }
  // Returns the visible buffers that the step is the first to touch; for the index after the last
  // step, those that no step touches.
  const std::vector<uint32_t>& VisibleFrom(uint32_t step) const { return steps_[step].visible; }
  // Returns the visible buffers that the step is the last to touch and that no output lies in.
  const std::vector<uint32_t>& VisibleUntil(uint32_t step) const { return steps_[step].released; }
  // Returns the last step that touches the input's memory, or nullopt if no step does or an eager
  // one does, because the results of an eager step may be views of the input.
  std::optional<uint32_t> LastStepOf(uint32_t input) const { return last_step_of_input_[input]; }

  // The memory of one call that is not visible outside. If no step gave it back, it is given back
  // in stream order when this object is destroyed.
  class Call {
   public:
    Call() = default;
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    friend class ProgramExecutor;
    Device* device_ = nullptr;
    std::vector<DeviceBlock*> blocks_;  // by buffer, while it lives; empty if the function has none
  };

  // Fills the slots of constants. The first call copies the constants and const sections to the
  // device. `slots` has slot_count() entries.
  absl::Status BeginCall(Stream& stream, std::span<uint64_t> slots, Call* call);
  // Queues function().steps[step], a LaunchStep; PyTorch runs the others. Asynchronous. Steps run
  // in order.
  absl::Status RunStep(uint32_t step, Stream& stream, std::span<uint64_t> slots, Call* call);
  // Runs a program that has only launches. The caller has set the slots of inputs and visible
  // buffers.
  absl::Status Run(Stream& stream, std::span<uint64_t> slots);

  // Returns the device address of a constant, or 0 before the first BeginCall.
  uint64_t ConstantAddress(uint32_t constant) const;

 private:
  struct Patch {  // table[entry].pTensorAddress = slots[slot] + offset
    uint32_t entry;
    uint32_t slot;
    uint64_t offset;
  };
  struct PreparedLaunch {
    std::shared_ptr<LoadedRecipe> recipe;
    uint32_t purpose = 0;  // the number of a text with the program's name
    std::vector<synLaunchTensorInfo> table;
    std::vector<Patch> patches;
  };

  // The buffers by the step that is the first or the last to touch them.
  struct StepBuffers {
    std::vector<uint32_t> visible;   // from this step on
    std::vector<uint32_t> hidden;    // from this step on
    std::vector<uint32_t> dead;      // hidden buffers, dead after this step
    std::vector<uint32_t> released;  // visible buffers, dead after this step
  };

  ProgramExecutor(std::string name, std::shared_ptr<const Program> program, uint32_t function)
      : name_(std::move(name)), program_(std::move(program)), function_(function) {}
  absl::Status Prepare(std::span<const std::span<const uint8_t>> recipes);
  void PlanBuffers();
  absl::Status Prepare(const LaunchStep& step);
  absl::Status Execute(uint32_t step, Stream& stream, std::span<const uint64_t> slots);
  absl::Status PlaceConstants(Stream& stream);

  const std::string name_;
  const std::shared_ptr<const Program> program_;
  const uint32_t function_;
  std::vector<std::shared_ptr<LoadedRecipe>>
      recipes_;  // the program's recipes; null if this function does not use the recipe
  std::vector<PreparedLaunch> launches_;
  std::vector<uint32_t> launch_of_step_;  // index into launches_; unused for other steps
  std::vector<bool> buffer_is_visible_;
  std::vector<bool> constant_is_read_;  // by the program's constants
  std::vector<StepBuffers> steps_;      // by step, and one after the last
  std::vector<std::optional<uint32_t>> last_step_of_input_;
  bool hides_buffers_ = false;
  uint32_t slot_count_ = 0;

  // Guards the tables while one is patched and copied, and the placing of constants.
  std::mutex mutex_;
  bool placed_ = false;
  std::vector<DeviceBlock*> constants_;  // null for empty ones
};

}  // namespace hpu::runtime
