#include "tests/lowering/program_runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>

#include "synapse/recipe_bytes.h"

namespace hpu::testing {
namespace {

// Tensors start this many elements into their memory, because nothing may rely on aligned bases.
constexpr int64_t kLead = 3;
constexpr uint64_t kGuardBytes = 64;
constexpr uint8_t kGuard = 0xA5;

uint64_t SpanBytes(const TensorSpec& spec) {
  return static_cast<uint64_t>(ir::SpanElements({spec.dtype, spec.sizes, spec.strides}) *
                               DTypeSize(spec.dtype));
}

}  // namespace

// The memory and the steps of one call.
class ProgramRunner::Call {
 public:
  Call(ProgramRunner& runner, const Program& program)
      : runner_(runner), program_(program), function_(program.functions[0]) {}
  ~Call() {
    for (const Block& block : blocks_) {
      if (block.base != 0) f().synDeviceFree(runner_.device_, block.base, 0);
    }
  }

  absl::Status Prepare(const std::vector<ir::HostTensor>& inputs);
  absl::Status RunStep(const Step& step, std::span<const Bytes> recipes);
  absl::StatusOr<ir::RunResult> Results();

 private:
  struct Block {
    uint64_t base = 0;
    uint64_t first = 0;  // address of the first element
    uint64_t bytes = 0;  // from there
    Bytes before;        // the whole allocation, where it must not change
  };

  const SynapseFunctions& f() const { return runner_.functions_; }
  absl::Status Check(synStatus status, const char* call) { return ToStatus(f(), status, call); }
  absl::Status Copy(uint64_t from, uint64_t to, uint64_t size, synDmaDir direction, void* host);
  absl::StatusOr<Bytes> Read(uint64_t address, uint64_t size);
  absl::Status Write(uint64_t address, Bytes data);
  absl::StatusOr<Block*> Allocate(uint64_t bytes, int64_t lead_bytes);
  absl::StatusOr<ir::HostTensor> ReadTensor(uint64_t first, const TensorSpec& spec);
  absl::Status WriteTensor(Block& block, const TensorSpec& spec, const ir::HostTensor& tensor);
  absl::Status Launch(const LaunchStep& step, std::span<const Bytes> recipes);
  absl::Status RunEager(const EagerStep& step);
  uint64_t AddressOf(uint32_t tensor) const;
  absl::Status CheckGuards();

  ProgramRunner& runner_;
  const Program& program_;
  const ProgramFunction& function_;
  std::deque<Block> blocks_;
  std::vector<Block*> inputs_, buffers_, constants_;
  std::map<uint32_t, uint64_t> eager_;  // program tensor -> address
};

absl::Status ProgramRunner::Call::Copy(uint64_t from, uint64_t to, uint64_t size,
                                       synDmaDir direction, void* host) {
  if (size == 0) return absl::OkStatus();
  RETURN_IF_ERROR(Check(f().synHostMap(runner_.device_, size, host), "synHostMap"));
  RETURN_IF_ERROR(
      Check(f().synMemCopyAsync(runner_.stream_, from, size, to, direction), "synMemCopyAsync"));
  RETURN_IF_ERROR(Check(f().synStreamSynchronize(runner_.stream_), "synStreamSynchronize"));
  return Check(f().synHostUnmap(runner_.device_, host), "synHostUnmap");
}

absl::StatusOr<Bytes> ProgramRunner::Call::Read(uint64_t address, uint64_t size) {
  Bytes data(size);
  RETURN_IF_ERROR(
      Copy(address, reinterpret_cast<uint64_t>(data.data()), size, DRAM_TO_HOST, data.data()));
  return data;
}

absl::Status ProgramRunner::Call::Write(uint64_t address, Bytes data) {
  return Copy(reinterpret_cast<uint64_t>(data.data()), address, data.size(), HOST_TO_DRAM,
              data.data());
}

absl::StatusOr<ProgramRunner::Call::Block*> ProgramRunner::Call::Allocate(uint64_t bytes,
                                                                          int64_t lead_bytes) {
  Block& block = blocks_.emplace_back();
  const uint64_t lead = kGuardBytes + static_cast<uint64_t>(lead_bytes);
  const uint64_t total = lead + bytes + kGuardBytes;
  RETURN_IF_ERROR(
      Check(f().synDeviceMalloc(runner_.device_, total, 0, 0, &block.base), "synDeviceMalloc"));
  block.first = block.base + lead;
  block.bytes = bytes;
  block.before.assign(total, kGuard);
  RETURN_IF_ERROR(Write(block.base, block.before));
  return &block;
}

absl::Status ProgramRunner::Call::WriteTensor(Block& block, const TensorSpec& spec,
                                              const ir::HostTensor& tensor) {
  const Bytes elements = ir::ToBytes(tensor);
  const auto size = static_cast<size_t>(DTypeSize(spec.dtype));
  const uint64_t lead = block.first - block.base;
  ir::IndexWalk walk(spec.sizes);
  for (size_t i = 0; i < tensor.data.size(); ++i, walk.Next()) {
    std::memcpy(block.before.data() + lead + walk.Offset(spec.strides) * static_cast<int64_t>(size),
                elements.data() + i * size, size);
  }
  return Write(block.base, block.before);
}

absl::StatusOr<ir::HostTensor> ProgramRunner::Call::ReadTensor(uint64_t first,
                                                               const TensorSpec& spec) {
  const auto size = static_cast<size_t>(DTypeSize(spec.dtype));
  const int64_t start = spec.storage_offset * static_cast<int64_t>(size);
  ASSIGN_OR_RETURN(const Bytes memory, Read(first + static_cast<uint64_t>(start), SpanBytes(spec)));
  Bytes elements(static_cast<size_t>(NumElements(spec.sizes)) * size);
  ir::IndexWalk walk(spec.sizes);
  for (size_t at = 0; at < elements.size(); at += size, walk.Next()) {
    std::memcpy(elements.data() + at,
                memory.data() + walk.Offset(spec.strides) * static_cast<int64_t>(size), size);
  }
  return ir::FromBytes(spec.dtype, spec.sizes, elements);
}

absl::Status ProgramRunner::Call::Prepare(const std::vector<ir::HostTensor>& inputs) {
  size_t next = 0;
  for (const ProgramInput& input : function_.inputs) {
    inputs_.push_back(nullptr);
    if (input.kind == ProgramInput::Kind::kScalar) continue;
    ASSIGN_OR_RETURN(inputs_.back(),
                     Allocate(SpanBytes(input.spec), kLead * DTypeSize(input.spec.dtype)));
    RETURN_IF_ERROR(WriteTensor(*inputs_.back(), input.spec, inputs[next++]));
  }
  for (uint64_t bytes : function_.buffer_bytes) {
    ASSIGN_OR_RETURN(Block * block, Allocate(bytes, 0));
    buffers_.push_back(block);
  }
  for (const ProgramConstant& constant : program_.constants) {
    ASSIGN_OR_RETURN(Block * block, Allocate(constant.data.size(), 0));
    std::copy(constant.data.begin(), constant.data.end(),
              block->before.begin() + static_cast<int64_t>(block->first - block->base));
    RETURN_IF_ERROR(Write(block->base, block->before));
    constants_.push_back(block);
  }
  return absl::OkStatus();
}

uint64_t ProgramRunner::Call::AddressOf(uint32_t index) const {
  const ProgramTensor& tensor = function_.tensors[index];
  const uint64_t offset =
      static_cast<uint64_t>(tensor.spec.storage_offset * DTypeSize(tensor.spec.dtype));
  switch (tensor.placement) {
    case Placement::kInput:
      return inputs_[tensor.index]->first + offset;
    case Placement::kBuffer:
      return buffers_[tensor.index]->first + offset;
    case Placement::kConstant:
      return constants_[tensor.index]->first + offset;
    case Placement::kEager:
      return eager_.at(index);
  }
  return 0;
}

absl::Status ProgramRunner::Call::RunStep(const Step& step, std::span<const Bytes> recipes) {
  if (const auto* launch = std::get_if<LaunchStep>(&step)) return Launch(*launch, recipes);
  return RunEager(std::get<EagerStep>(step));
}

absl::Status ProgramRunner::Call::Launch(const LaunchStep& step, std::span<const Bytes> recipes) {
  ASSIGN_OR_RETURN(const RecipeHandle recipe, DeserializeRecipe(f(), recipes[step.recipe]));
  std::vector<synLaunchTensorInfo> table;
  for (const Binding& binding : step.bindings) {
    synLaunchTensorInfo entry = {};
    entry.tensorName = binding.tensor_name.c_str();
    entry.pTensorAddress = AddressOf(binding.tensor);
    entry.tensorType = DATA_TENSOR;
    RETURN_IF_ERROR(
        Check(f().synTensorRetrieveIds(recipe.get(), &entry.tensorName, &entry.tensorId, 1),
              "synTensorRetrieveIds"));
    if (entry.tensorId == TENSOR_INVALID_ID) {
      return Internal("the recipe has no tensor ", binding.tensor_name);
    }
    table.push_back(entry);
  }
  uint32_t amount = 0;
  RETURN_IF_ERROR(Check(f().synTensorRetrieveLaunchAmount(recipe.get(), &amount),
                        "synTensorRetrieveLaunchAmount"));
  if (amount != table.size()) {
    return Internal("the recipe has ", amount, " tensors, the program binds ", table.size());
  }
  uint64_t workspace_bytes = 0;
  RETURN_IF_ERROR(
      Check(f().synWorkspaceGetSize(&workspace_bytes, recipe.get()), "synWorkspaceGetSize"));
  uint64_t workspace = 0;
  if (workspace_bytes > 0) {
    RETURN_IF_ERROR(Check(f().synDeviceMalloc(runner_.device_, workspace_bytes, 0, 0, &workspace),
                          "synDeviceMalloc"));
  }
  absl::Status status =
      Check(f().synLaunchWithExternalEvents(runner_.stream_, table.data(),
                                            static_cast<uint32_t>(table.size()), workspace,
                                            recipe.get(), nullptr, 0, 0),
            "synLaunchWithExternalEvents");
  const absl::Status ended =
      Check(f().synStreamSynchronize(runner_.stream_), "synStreamSynchronize");
  if (workspace != 0) f().synDeviceFree(runner_.device_, workspace, 0);
  return status.ok() ? ended : status;
}

absl::Status ProgramRunner::Call::RunEager(const EagerStep& step) {
  const uint32_t operand = std::get<TensorArgument>(step.args[0].value).tensor;
  const TensorSpec& from = function_.tensors[operand].spec;
  const TensorSpec& to = function_.tensors[step.outputs[0]].spec;
  if (step.op == "aten::as_strided") {
    eager_[step.outputs[0]] = AddressOf(operand);
  } else if (step.op == "aten::slice") {
    eager_[step.outputs[0]] =
        AddressOf(operand) + static_cast<uint64_t>(std::get<int64_t>(step.args[2].value) *
                                                   from.strides[0] * DTypeSize(from.dtype));
  } else if (step.op == "aten::lgamma") {
    TensorSpec spec = from;
    spec.storage_offset = 0;
    ASSIGN_OR_RETURN(ir::HostTensor values, ReadTensor(AddressOf(operand), spec));
    for (double& value : values.data) value = ir::RoundTo(values.dtype, std::lgamma(value));
    ASSIGN_OR_RETURN(Block * block, Allocate(SpanBytes(to), 0));
    RETURN_IF_ERROR(WriteTensor(*block, to, values));
    eager_[step.outputs[0]] = block->first;
  } else {
    return Unimplemented("eager op ", step.op);
  }
  return absl::OkStatus();
}

// Nothing around buffers may be written, no byte of inputs that are not mutated, and no byte of
// constants.
absl::Status ProgramRunner::Call::CheckGuards() {
  for (size_t b = 0; b < blocks_.size(); ++b) {
    const Block& block = blocks_[b];
    ASSIGN_OR_RETURN(const Bytes now, Read(block.base, block.before.size()));
    bool may_change = std::count(buffers_.begin(), buffers_.end(), &block) > 0;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      may_change |= inputs_[i] == &block && function_.inputs[i].mutated;
    }
    const uint64_t lead = block.first - block.base;
    for (uint64_t at = 0; at < now.size(); ++at) {
      const bool inside = at >= lead && at < lead + block.bytes;
      if (now[at] != block.before[at] && !(inside && may_change)) {
        return Internal("byte ", static_cast<int64_t>(at) - static_cast<int64_t>(lead),
                        " of memory block ", b, " (", block.bytes, " bytes) was overwritten");
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ir::RunResult> ProgramRunner::Call::Results() {
  RETURN_IF_ERROR(CheckGuards());
  ir::RunResult result;
  const auto number = [](double value) { return ir::MakeHostTensor(DType::kF64, {}, value); };
  for (const ProgramOutput& output : function_.outputs) {
    switch (output.kind) {
      case ProgramOutput::Kind::kTensor: {
        TensorSpec spec = function_.tensors[output.index].spec;
        spec.storage_offset = 0;
        ASSIGN_OR_RETURN(ir::HostTensor tensor, ReadTensor(AddressOf(output.index), spec));
        result.outputs.push_back(std::move(tensor));
        break;
      }
      case ProgramOutput::Kind::kInput:
      case ProgramOutput::Kind::kInputView: {
        const bool whole = output.kind == ProgramOutput::Kind::kInput;
        const TensorSpec& spec = whole ? function_.inputs[output.index].spec : output.view;
        ASSIGN_OR_RETURN(ir::HostTensor tensor, ReadTensor(inputs_[output.index]->first, spec));
        result.outputs.push_back(std::move(tensor));
        break;
      }
      case ProgramOutput::Kind::kNone:
        result.outputs.emplace_back();
        break;
      case ProgramOutput::Kind::kFloat:
        result.outputs.push_back(number(output.float_value));
        break;
      default:
        result.outputs.push_back(number(static_cast<double>(output.int_value)));
        break;
    }
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i] == nullptr) continue;
    ASSIGN_OR_RETURN(ir::HostTensor tensor,
                     ReadTensor(inputs_[i]->first, function_.inputs[i].spec));
    result.inputs.push_back(std::move(tensor));
  }
  return result;
}

absl::StatusOr<std::unique_ptr<ProgramRunner>> ProgramRunner::Create(
    const SynapseFunctions& functions) {
  std::unique_ptr<ProgramRunner> runner(new ProgramRunner(functions));
  RETURN_IF_ERROR(
      ToStatus(functions, functions.synDeviceAcquireByDeviceType(&runner->device_, synDeviceGaudi2),
               "synDeviceAcquireByDeviceType"));
  RETURN_IF_ERROR(ToStatus(functions,
                           functions.synStreamCreateGeneric(&runner->stream_, runner->device_, 0),
                           "synStreamCreateGeneric"));
  return runner;
}

ProgramRunner::~ProgramRunner() { functions_.synDeviceRelease(device_); }

absl::StatusOr<ir::RunResult> ProgramRunner::Run(const compiler::CompiledProgram& compiled,
                                                 const std::vector<ir::HostTensor>& inputs) {
  ASSIGN_OR_RETURN(const Program program, DecodeProgram(compiled.program));
  Call call(*this, program);
  RETURN_IF_ERROR(call.Prepare(inputs));
  for (const Step& step : program.functions[0].steps) {
    RETURN_IF_ERROR(call.RunStep(step, compiled.recipes));
  }
  return call.Results();
}

}  // namespace hpu::testing
