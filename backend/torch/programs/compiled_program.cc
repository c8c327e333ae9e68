#include "backend/torch/programs/compiled_program.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "backend/runtime/launch_history.h"
#include "backend/torch/device/allocator.h"
#include "backend/torch/device/dtypes.h"
#include "backend/torch/device/errors.h"
#include "backend/torch/programs/call_line.h"
#include "backend/torch/programs/recorded_call.h"
#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

// A node keeps its call in a CPU byte at the call's address, whose deleter releases the call.
// Compiled autograd accepts a tensor as an input of its graph, but it cannot hash a capsule.
constexpr char kCall[] = "call";
constexpr char kHooked[] = "hooked";
constexpr char kReleased[] = "released";
constexpr char kBackwardTwice[] =
    "Trying to backward through the graph a second time: a first backward of this compiled graph, "
    "which failed, has released what the graph saved. Run the forward again, or specify "
    "retain_graph=True";
constexpr char kTwice[] =
    "a graph that hpu_backend compiled was differentiated with create_graph=True and is now "
    "differentiated again: the backward of a compiled graph has no backward of its own, and the "
    "graph could not be run eagerly again, because ";
constexpr char kAdvice[] =
    ". Run this part of the model without torch.compile (torch.compiler.disable) where second "
    "derivatives are needed";

// Inside a transform (vmap over gradients) a tensor's memory does not simply hold its elements.
bool IsTransformed(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet kTransformed({c10::DispatchKey::Batched,
                                              c10::DispatchKey::FuncTorchBatched,
                                              c10::DispatchKey::FuncTorchGradWrapper});
  return tensor.defined() && tensor.key_set().has_any(kTransformed);
}

// Returns the generator's state without taking anything from it.
RandomPlace GeneratorPlace() {
  at::Generator generator = DefaultGenerator();
  const std::lock_guard lock(generator.mutex());
  return {generator.current_seed(), generator.get_offset()};
}

// Returns the gradient of an output in the form that the backward takes: zeros where no gradient
// reached the output, and a copy where strides or type differ from those that were compiled for.
at::Tensor AsTangent(const at::Tensor& gradient, const TensorSpec& spec) {
  const at::ScalarType dtype = *ToScalarType(spec.dtype);
  const at::Device device(kHpuDevice);
  const bool fits = gradient.defined() && gradient.scalar_type() == dtype &&
                    gradient.device() == device && gradient.layout() == at::kStrided &&
                    gradient.strides() == at::IntArrayRef(spec.strides) && !gradient.is_neg() &&
                    !gradient.is_conj() && !gradient._is_zerotensor();
  if (fits) return gradient;
  const auto options = at::TensorOptions().dtype(dtype).device(device);
  at::Tensor made = at::empty_strided(spec.sizes, spec.strides, options);
  return gradient.defined() ? made.copy_(gradient) : made.zero_();
}

}  // namespace

CompiledProgram::CompiledProgram(std::vector<std::unique_ptr<runtime::ProgramExecutor>> executors) {
  for (auto& executor : executors) {
    functions_.push_back(std::make_unique<CompiledFunction>(std::move(executor)));
  }
  if (!has_backward()) return;
  gradient_of_input_.assign(forward().function().inputs.size(), -1);
  for (const GradientPair& pair : program().gradients) {
    gradient_of_input_[pair.forward] = pair.backward;
  }
  const std::vector<ProgramInput>& inputs = forward().function().inputs;
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].kind == ProgramInput::Kind::kTensor) tensor_inputs_.push_back(i);
  }
  const std::vector<ProgramOutput>& outputs = forward().function().outputs;
  std::vector<uint32_t> place(outputs.size());
  for (uint32_t i = 0; i < outputs.size(); ++i) {
    place[i] = static_cast<uint32_t>(node_outputs_.size());
    if (!outputs[i].returned) continue;
    if (outputs[i].kind == ProgramOutput::Kind::kTensor) {
      node_outputs_.push_back(i);
      returned_place_.push_back(returned_count_);
    }
    ++returned_count_;
  }
  for (const GradientPair& pair : program().tangents) {
    place_of_tangent_.push_back(place[pair.forward]);
  }
  std::vector<uint32_t> donated;
  for (const SavedValue& value : program().saved) {
    if (value.donated) donated.push_back(value.input);
  }
  backward().Donate(donated);
}

struct CompiledProgram::Gradients : torch::autograd::Function<Gradients> {
  struct Results {
    std::vector<at::Tensor> outputs;  // of the forward
    variable_list returned;           // the outputs that are tensors of the node
    std::optional<RandomPlace> drawn;
  };

  // `inputs` are the tensors among the forward's inputs.
  static Results Run(const RecordedCall& call, at::TensorList inputs) {
    CompiledProgram& program = call.program();
    CompiledFunction& function = program.forward();
    std::vector<const at::Tensor*> arguments(function.function().inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) arguments[program.tensor_inputs_[i]] = &inputs[i];
    Results results;
    const RandomPlace before = GeneratorPlace();
    results.outputs = function.Run(arguments, /*donated=*/false, &results.drawn);
    // Steps that draw eagerly take their numbers themselves.
    if (!results.drawn.has_value() && GeneratorPlace().offset != before.offset) {
      results.drawn = before;
    }
    for (const uint32_t i : program.node_outputs_) results.returned.push_back(results.outputs[i]);
    return results;
  }

  // Returns the tensor outputs that the caller gets, without those that are inputs or views of
  // inputs.
  static variable_list forward(AutogradContext* context,
                               const c10::intrusive_ptr<RecordedCall>& call,
                               at::TensorList inputs) {
    CompiledProgram* program = &call->program();
    const auto [outputs, returned, drawn] = Run(*call, inputs);
    call->NoteForward(drawn);
    variable_list saved(program->backward().function().inputs.size());
    for (const SavedValue& value : program->program().saved) {
      saved[value.input] = outputs[value.output];
    }
    variable_list not_differentiable;
    for (const uint32_t i : program->node_outputs_) {
      const bool differentiable = program->forward().function().outputs[i].requires_grad;
      if (!differentiable) not_differentiable.push_back(outputs[i]);
    }
    context->save_for_backward(std::move(saved));
    context->mark_non_differentiable(not_differentiable);
    context->set_materialize_grads(false);
    // The tensors that hooks give back later may be the hooks' own.
    const bool hooked = at::SavedTensorDefaultHooks::get_hooks().has_value();
    context->saved_data[kHooked] = hooked;
    // The purpose of hooks is to hold less memory, as those of a checkpoint do.
    if (hooked) call->Release("its saved tensors went through hooks (saved_tensors_hooks)");
    context->saved_data[kCall] =
        at::from_blob(call.get(), {1}, [call](void*) {}, at::TensorOptions(at::kByte));
    return returned;
  }

  static void Release(AutogradContext* context, RecordedCall& call) {
    context->saved_data[kReleased] = true;
    call.Release("a first backward has released what the graph kept");
  }

  static variable_list backward(AutogradContext* context, const variable_list& tangents) {
    const at::Tensor owner = context->saved_data[kCall].toTensor();
    auto* call = static_cast<RecordedCall*>(owner.data_ptr());
    CompiledProgram* program = &call->program();
    const bool create_graph = at::GradMode::is_enabled();
    const bool transformed = std::any_of(tangents.begin(), tangents.end(), IsTransformed);
    variable_list gradients(1);  // the call itself has no gradient
    std::string reason;
    if (create_graph || transformed) {
      TORCH_CHECK(context->saved_data.count(kReleased) == 0, kBackwardTwice);
      variable_list given(program->returned_count_);
      for (size_t i = 0; i < tangents.size(); ++i) given[program->returned_place_[i]] = tangents[i];
      const auto found = call->Differentiate(given, create_graph, &reason);
      if (found.has_value()) {
        for (const uint32_t i : program->tensor_inputs_) gradients.push_back((*found)[i]);
        if (!torch::autograd::get_current_graph_task_keep_graph()) Release(context, *call);
        return gradients;
      }
      TORCH_CHECK(!transformed, "gradients of program ", program->forward().name(),
                  " were asked for inside a transform of torch.func (vmap), and its graph could "
                  "not be run eagerly again, because ",
                  reason, kAdvice);
    }
    {
      const at::NoGradGuard no_grad;
      // Autograd releases them after this call anyway, unless the graph is retained.
      const bool donated = !torch::autograd::get_current_graph_task_keep_graph() &&
                           !context->saved_data[kHooked].toBool();
      TORCH_CHECK(context->saved_data.count(kReleased) == 0, kBackwardTwice);
      if (donated) Release(context, *call);
      const variable_list outputs =
          program->RunBackward(context->get_saved_variables(), tangents, donated);
      for (const uint32_t i : program->tensor_inputs_) {
        const int64_t gradient = program->gradient_of_input_[i];
        gradients.push_back(gradient < 0 ? at::Tensor() : outputs[static_cast<size_t>(gradient)]);
      }
    }
    if (!create_graph) return gradients;
    return RaiseIfDifferentiated(gradients, kTwice + reason + kAdvice);
  }
};

// `saved` is by input of the backward. `tangents` is by output of the node; entries may be
// undefined. `donated` says that saved tensors may lose their memory.
variable_list CompiledProgram::RunBackward(variable_list saved, const variable_list& tangents,
                                           bool donated) {
  const std::vector<ProgramInput>& inputs = backward().function().inputs;
  const std::vector<GradientPair>& pairs = program().tangents;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const uint32_t input = pairs[i].backward;
    saved[input] = AsTangent(tangents[place_of_tangent_[i]], inputs[input].spec);
  }
  std::vector<const at::Tensor*> arguments;
  for (const at::Tensor& tensor : saved) arguments.push_back(&tensor);
  return backward().Run(arguments, donated);
}

PyObject* CompiledProgram::Call(PyObject* const* arguments, size_t count, PyObject* differentiate) {
  std::optional<runtime::LaunchPurpose> purpose;
  if (const uint32_t line = LineOfCaller(); line != 0) {
    purpose.emplace(runtime::NumberOfText(WithLine("program " + forward().name(), line)));
  }
  return has_backward() ? CallWithBackward(arguments, count, differentiate)
                        : forward().Call(arguments, count);
}

PyObject* CompiledProgram::CallWithBackward(PyObject* const* arguments, size_t count,
                                            PyObject* differentiate) {
  forward().CheckCount(count);
  forward().RefuseTangents(arguments, count);
  variable_list inputs;
  for (size_t i = 0; i < count; ++i) {
    const at::Tensor* tensor = forward().TensorArgument(arguments[i], i);
    if (tensor == nullptr) continue;
    // An input without a gradient is not an input of the node: autograd would continue from it with
    // zeros where eager PyTorch stops.
    const bool cut = gradient_of_input_[i] < 0 && tensor->requires_grad();
    inputs.push_back(cut ? tensor->detach() : *tensor);
  }
  const auto call = c10::make_intrusive<RecordedCall>(
      c10::intrusive_ptr<CompiledProgram>::reclaim_copy(this), differentiate, arguments, count);
  variable_list tensors;
  if (c10::InferenceMode::is_enabled()) {
    // Autograd does not follow this.
    tensors = Gradients::Run(*call, at::TensorList(inputs)).returned;
  } else {
    const at::AutoGradMode on(true);
    tensors = Gradients::apply(call, at::TensorList(inputs));
  }
  std::vector<THPObjectPtr> outputs;
  size_t next = 0;
  for (size_t i = 0; i < forward().function().outputs.size(); ++i) {
    const ProgramOutput& output = forward().function().outputs[i];
    if (!output.returned) continue;
    switch (output.kind) {
      case ProgramOutput::Kind::kTensor:
        outputs.emplace_back(THPVariable_Wrap(tensors[next++]));
        break;
      case ProgramOutput::Kind::kInput:
        outputs.emplace_back(Py_NewRef(arguments[output.index]));
        break;
      case ProgramOutput::Kind::kInputView: {
        const at::Tensor& input = THPVariable_Unpack(arguments[output.index]);
        outputs.emplace_back(THPVariable_Wrap(CompiledFunction::ViewOfInput(output, input)));
        break;
      }
      default:
        outputs.emplace_back(forward().ConstantOutput(i));
    }
    if (!outputs.back()) throw python_error();
  }
  THPObjectPtr result(PyTuple_New(static_cast<Py_ssize_t>(outputs.size())));
  if (!result) throw python_error();
  for (size_t i = 0; i < outputs.size(); ++i) {
    PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i), outputs[i].release());
  }
  return result.release();
}

}  // namespace hpu::torch_backend
