#include "backend/torch/record/call_program.h"

#include "backend/torch/device/allocator.h"
#include "backend/torch/eager/kernels.h"
#include "backend/torch/pytorch/unstable_torch.h"
#include "backend/torch/record/front_end.h"

namespace hpu::torch_backend {
namespace {

namespace py = pybind11;
using c10::IValue;

CallProgram::Made ToMade(const py::handle& made) {
  using Kind = CallProgram::Made::Kind;
  const auto kind = made.attr("kind").cast<std::string>();
  return {kind == "output"  ? Kind::kOutput
          : kind == "empty" ? Kind::kEmpty
                            : Kind::kUndefined,
          made.attr("dtype").cast<at::ScalarType>(),
          made.attr("sizes").cast<std::vector<int64_t>>()};
}

// `answer` is an Answer of habana_frameworks/torch/eager/answer.py.
std::shared_ptr<const CallProgram> ToCallProgram(const py::object& answer) {
  auto result = std::make_shared<CallProgram>();
  TakeProgram(answer, *result);
  result->counts = answer.attr("counts").cast<std::vector<int64_t>>();
  for (const py::handle made : answer.attr("made")) result->made.push_back(ToMade(made));
  for (const py::handle resize : answer.attr("resizes")) {
    result->resizes.push_back({resize.attr("tensor").cast<size_t>(),
                               resize.attr("sizes").cast<std::vector<int64_t>>(),
                               resize.attr("strides").cast<std::vector<int64_t>>()});
  }
  return result;
}

}  // namespace

std::vector<IValue> CallProgram::Run(const CallSignature& call) const {
  for (const Resize& resize : resizes) {
    at::native::resize_output_check(*call.tensors()[resize.tensor], resize.sizes);  // it warns
    ResizeTensor(call.tensors()[resize.tensor]->unsafeGetTensorImpl(), resize.sizes,
                 at::IntArrayRef(resize.strides));
  }
  c10::SmallVector<const at::Tensor*, 16> inputs(call.tensors().begin(), call.tensors().end());
  CompiledFunction& function = program->forward();
  inputs.resize(function.function().inputs.size(), nullptr);  // the generator's state
  std::vector<at::Tensor> outputs = function.Run(inputs);
  size_t next_output = 0;
  size_t next_made = 0;
  const auto next = [&]() -> at::Tensor {
    const Made& tensor = made[next_made++];
    if (tensor.kind == Made::Kind::kOutput) return std::move(outputs[next_output++]);
    if (tensor.kind == Made::Kind::kUndefined) return {};
    return at::empty(tensor.sizes, at::TensorOptions(kHpuDevice).dtype(tensor.dtype));
  };
  std::vector<IValue> values;
  for (const int64_t count : counts) {
    if (count < 0) {
      values.emplace_back(next());
      continue;
    }
    c10::List<at::Tensor> list;
    for (int64_t i = 0; i < count; ++i) list.push_back(next());
    values.emplace_back(std::move(list));
  }
  return values;
}

std::shared_ptr<const CallProgram> CompileCall(const c10::OperatorHandle& op,
                                               c10::ArrayRef<IValue> arguments,
                                               const CallSignature& call) {
  const FrontEnd front_end;
  const auto [positional, named] = ToPythonCall(op, arguments);
  const auto signature = std::as_bytes(call.words());
  return front_end.Ask([&] {
    return ToCallProgram(front_end.compile_call(
        op.schema().name(), op.schema().overload_name(), positional, named,
        py::bytes(reinterpret_cast<const char*>(signature.data()), signature.size())));
  });
}

}  // namespace hpu::torch_backend
