#include "backend/torch/programs/input_form.h"

#include "backend/torch/device/dtypes.h"
#include "backend/torch/device/errors.h"
#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {
namespace {

// The keys of tensors that are more than memory: their bytes are not their values.
constexpr c10::DispatchKeySet kNotPlain({c10::DispatchKey::Python, c10::DispatchKey::Conjugate,
                                         c10::DispatchKey::Negative, c10::DispatchKey::ZeroTensor,
                                         c10::DispatchKey::FuncTorchBatched,
                                         c10::DispatchKey::Functionalize});

// Names the kind of a tensor whose memory does not hold its elements directly; null for a plain
// one.
const char* KindOf(const at::Tensor& tensor) {
  struct Row {
    c10::DispatchKey key;
    const char* name;
  };
  static constexpr Row kRows[] = {
      {c10::DispatchKey::FuncTorchBatched, "a batched tensor of vmap"},
      {c10::DispatchKey::Functionalize, "a functional wrapper"},
      {c10::DispatchKey::Python, "a tensor subclass, or one under a dispatch mode"},
      {c10::DispatchKey::ZeroTensor, "a zero tensor without memory"},
      {c10::DispatchKey::Conjugate,
       "one whose conjugate is not yet taken (resolve_conj() takes it)"},
      {c10::DispatchKey::Negative, "one that is not yet negated (resolve_neg() negates it)"},
  };
  for (const Row& row : kRows) {
    if (tensor.key_set().has(row.key)) return row.name;
  }
  return tensor.layout() == at::kStrided ? nullptr : "one of another layout than strided";
}

// Strides of dimensions with one element have no meaning, and neither do any strides of an empty
// tensor.
bool StridesFit(at::IntArrayRef sizes, at::IntArrayRef given, at::IntArrayRef wanted) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (given[i] != wanted[i] && sizes[i] > 1) return false;
  }
  return true;
}

}  // namespace

bool IsPlain(const at::Tensor& tensor) {
  return !tensor.key_set().has_any(kNotPlain) && tensor.layout() == at::kStrided;
}

at::ScalarType ScalarTypeOf(DType dtype, const std::string& program) {
  const auto type = ToScalarType(dtype);
  if (!type.has_value()) Throw(InvalidArgument("program ", program, ": invalid dtype"));
  return *type;
}

InputForm::InputForm(const ProgramInput& input, const std::string& program)
    : is_tensor(input.kind == ProgramInput::Kind::kTensor),
      is_state(input.kind == ProgramInput::Kind::kSeed ||
               input.kind == ProgramInput::Kind::kOffset) {
  if (!is_tensor) return;
  on_cpu = input.on_cpu;
  mutated = input.mutated;
  dtype = ScalarTypeOf(input.spec.dtype, program);
  sizes = input.spec.sizes;
  strides = input.spec.strides;
  numel = c10::multiply_integers(input.spec.sizes);
  bytes = at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(dtype));
}

bool InputForm::IsOf(at::ScalarType type, at::IntArrayRef size, at::IntArrayRef stride,
                     bool cpu) const {
  return is_tensor && cpu == on_cpu && type == dtype && size == at::IntArrayRef(sizes) &&
         (numel == 0 || StridesFit(sizes, stride, strides));
}

bool InputForm::Fits(const at::Tensor& tensor) const {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const c10::DeviceType device = on_cpu ? c10::DeviceType::CPU : c10::DeviceType::HPU;
  return impl.device_type() == device && !impl.key_set().has_any(kNotPlain) &&
         IsOf(c10::typeMetaToScalarType(impl.dtype()), impl.sizes(), impl.strides(), on_cpu);
}

void InputForm::RaiseMisfit(const at::Tensor& tensor, const std::string& what) const {
  const char* device = on_cpu ? "cpu" : "hpu";
  std::vector<std::string> differences;
  const auto differ = [&](bool differs, const auto&... parts) {
    if (differs) differences.push_back(c10::str(parts...));
  };
  const char* kind = KindOf(tensor);
  differ(kind != nullptr, "it must be a plain tensor; given: ", kind == nullptr ? "" : kind);
  differ(c10::DeviceTypeName(tensor.device().type(), true) != device, "it must be on ", device,
         "; given: ", tensor.device());
  differ(tensor.scalar_type() != dtype, "it must have elements of ", c10::toString(dtype),
         "; given: ", c10::toString(tensor.scalar_type()));
  if (kind == nullptr) {
    const bool sized = tensor.sizes() == at::IntArrayRef(sizes);
    differ(!sized, "it must have sizes ", at::IntArrayRef(sizes), "; given: ", tensor.sizes());
    differ(sized && numel != 0 && !StridesFit(sizes, tensor.strides(), strides),
           "it must have strides ", at::IntArrayRef(strides), "; given: ", tensor.strides());
  }
  TORCH_CHECK_VALUE(false, what, " does not fit: ", c10::Join(", ", differences));
  __builtin_unreachable();
}

}  // namespace hpu::torch_backend
