// Structural checks of a recipe: every index, offset and range that the runtime follows. The code
// itself cannot be checked; it is trusted by its signature.
#include <limits>

#include "recipe/recipe.h"

namespace hpu {
namespace {

// Limit for any size; it keeps sums free of overflow.
constexpr uint64_t kMaxBytes = uint64_t{1} << 46;
constexpr uint64_t kMaxScratchBytes = uint64_t{1} << 32;
constexpr uint64_t kMaxTasks = uint64_t{1} << 40;

absl::Status CheckTensor(const RecipeTensor& tensor) {
  if (tensor.name.size() >= ENQUEUE_TENSOR_NAME_MAX_SIZE) {
    return DataLoss("tensor name of ", tensor.name.size(), " bytes");
  }
  if (tensor.sizes.size() > HABANA_DIM_MAX) {
    return DataLoss("tensor ", tensor.name, ": rank ", tensor.sizes.size());
  }
  if (ElementSize(tensor.dtype) == 0) {
    return DataLoss("tensor ", tensor.name, ": element type ", tensor.dtype);
  }
  uint64_t bytes = ElementSize(tensor.dtype);
  for (const uint64_t size : tensor.sizes) {
    if (size > kMaxBytes || (size != 0 && bytes > kMaxBytes / size)) {
      return DataLoss("tensor ", tensor.name, ": too large");
    }
    bytes *= size;
  }
  if (tensor.section_offset > kMaxBytes) {
    return DataLoss("tensor ", tensor.name, ": section offset ", tensor.section_offset);
  }
  if (tensor.permutation.empty()) return absl::OkStatus();
  uint32_t seen = 0;
  for (const uint8_t dim : tensor.permutation) {
    if (dim < tensor.sizes.size()) seen |= 1u << dim;
  }
  if (tensor.permutation.size() != tensor.sizes.size() ||
      seen != (uint32_t{1} << tensor.sizes.size()) - 1) {
    return DataLoss("tensor ", tensor.name, ": the permutation is not valid");
  }
  return absl::OkStatus();
}

absl::Status CheckOperand(const Recipe& recipe, const OperandRef& operand, bool allow_packed) {
  switch (operand.kind) {
    case OperandRef::Kind::kPersistent:
      if (operand.index >= recipe.tensors.size()) {
        return DataLoss("tensor ", operand.index, " of ", recipe.tensors.size());
      }
      if (operand.offset > TensorBytes(recipe.tensors[operand.index])) {
        return DataLoss("offset ", operand.offset, " in tensor ", operand.index);
      }
      return absl::OkStatus();
    case OperandRef::Kind::kWorkspace:
      if (operand.offset > recipe.workspace_bytes) {
        return DataLoss("offset ", operand.offset, " in a workspace of ", recipe.workspace_bytes);
      }
      return absl::OkStatus();
    case OperandRef::Kind::kConstant:
      if (operand.offset > recipe.constants.size()) {
        return DataLoss("offset ", operand.offset, " in constants of ", recipe.constants.size());
      }
      return absl::OkStatus();
    case OperandRef::Kind::kPacked:
      if (!allow_packed || operand.index >= recipe.packed.size() ||
          operand.offset > recipe.packed[operand.index].packed_bytes) {
        return DataLoss("packed operand ", operand.index, " offset ", operand.offset);
      }
      return absl::OkStatus();
    case OperandRef::Kind::kNull:
      return absl::OkStatus();
    case OperandRef::Kind::kKept:
      if (operand.offset > recipe.kept_bytes) {
        return DataLoss("offset ", operand.offset, " in kept memory of ", recipe.kept_bytes);
      }
      return absl::OkStatus();
  }
  return DataLoss("operand kind");
}

// Returns the bytes that a kernel may touch from the operand's place on.
uint64_t BytesBehind(const Recipe& recipe, const OperandRef& operand) {
  switch (operand.kind) {
    case OperandRef::Kind::kPersistent:
      return TensorBytes(recipe.tensors[operand.index]) - operand.offset;
    case OperandRef::Kind::kWorkspace:
      return recipe.workspace_bytes - operand.offset;
    case OperandRef::Kind::kConstant:
      return recipe.constants.size() - operand.offset;
    case OperandRef::Kind::kPacked:
      return recipe.packed[operand.index].packed_bytes - operand.offset;
    case OperandRef::Kind::kKept:
      return recipe.kept_bytes - operand.offset;
    case OperandRef::Kind::kNull:
      return 0;
  }
  return 0;
}

// The kernel must find all elements of its operand inside the memory in which the operand lies.
absl::Status CheckCustomOperand(const Recipe& recipe, const OperandRef& ref,
                                const CustomOperand& operand) {
  const uint64_t element = ElementSize(operand.dtype);
  if (element == 0) return DataLoss("element type ", operand.dtype);
  if (operand.sizes.empty() || operand.sizes.size() > MAX_DIMENSIONS_NUM ||
      operand.strides.size() != operand.sizes.size()) {
    return DataLoss(operand.sizes.size(), " sizes and ", operand.strides.size(), " strides");
  }
  uint64_t before = 0;  // elements
  uint64_t behind = 0;
  for (size_t d = 0; d < operand.sizes.size(); ++d) {
    const int64_t stride = operand.strides[d];
    const uint64_t step = stride < 0 ? -static_cast<uint64_t>(stride) : stride;
    const uint64_t size = operand.sizes[d];
    if (size == 0 || size > kMaxBytes || (step != 0 && size - 1 > kMaxBytes / step)) {
      return DataLoss("dimension ", d, " of size ", size, " and stride ", stride);
    }
    (stride < 0 ? before : behind) += step * (size - 1);
  }
  if (before * element > ref.offset || (behind + 1) * element > BytesBehind(recipe, ref)) {
    return DataLoss("elements ", before, " before to ", behind, " behind offset ", ref.offset);
  }
  return absl::OkStatus();
}

absl::Status CheckCustom(const Recipe& recipe, const KernelLaunch& kernel) {
  if (kernel.custom >= recipe.custom_kernels.size()) {
    return DataLoss("kernel ", kernel.name, ": custom kernel ", kernel.custom, " of ",
                    recipe.custom_kernels.size());
  }
  const CustomKernel& custom = recipe.custom_kernels[kernel.custom];
  if (kernel.entry != 0 || kernel.tasks != 1 ||
      kernel.operands.size() != custom.inputs.size() + custom.outputs.size()) {
    return DataLoss("kernel ", kernel.name, ": ", kernel.operands.size(), " operands, ",
                    kernel.tasks, " tasks and entry ", kernel.entry, " of a custom kernel");
  }
  for (size_t i = 0; i < kernel.operands.size(); ++i) {
    const CustomOperand& operand =
        i < custom.inputs.size() ? custom.inputs[i] : custom.outputs[i - custom.inputs.size()];
    RETURN_IF_ERROR_AT(CheckCustomOperand(recipe, kernel.operands[i], operand),
                       "kernel " + kernel.name + ", operand " + std::to_string(i));
  }
  return absl::OkStatus();
}

absl::Status CheckKernel(const Recipe& recipe, const KernelLaunch& kernel) {
  if (kernel.custom == KernelLaunch::kOwnCode && kernel.entry >= recipe.code.size()) {
    return DataLoss("kernel ", kernel.name, ": entry ", kernel.entry, " in code of ",
                    recipe.code.size());
  }
  if (kernel.tasks > kMaxTasks || kernel.grain == 0 || kernel.grain > kMaxTasks ||
      kernel.scratch_bytes > kMaxScratchBytes) {
    return DataLoss("kernel ", kernel.name, ": tasks ", kernel.tasks, ", grain ", kernel.grain,
                    ", scratch ", kernel.scratch_bytes);
  }
  for (const OperandRef& operand : kernel.operands) {
    RETURN_IF_ERROR_AT(CheckOperand(recipe, operand, true), "kernel " + kernel.name);
  }
  return kernel.custom == KernelLaunch::kOwnCode ? absl::OkStatus() : CheckCustom(recipe, kernel);
}

// The launch must not change what the prologue reads, and the prologue must not fail.
absl::Status CheckPrologue(const Recipe& recipe) {
  if (recipe.kept_bytes % 128 != 0 || recipe.kept_bytes > kMaxBytes) {
    return DataLoss("kept memory of ", recipe.kept_bytes, " bytes");
  }
  if (recipe.prologue > recipe.kernels.size()) {
    return DataLoss("prologue of ", recipe.prologue, " kernels of ", recipe.kernels.size());
  }
  for (uint32_t k = 0; k < recipe.prologue; ++k) {
    if (recipe.kernels[k].custom != KernelLaunch::kOwnCode) {
      return DataLoss("kernel ", recipe.kernels[k].name, " of the prologue is a custom one");
    }
    for (const OperandRef& operand : recipe.kernels[k].operands) {
      if (operand.kind == OperandRef::Kind::kPersistent &&
          recipe.tensors[operand.index].is_written) {
        return DataLoss("kernel ", recipe.kernels[k].name, " of the prologue has a tensor that is ",
                        "written: ", recipe.tensors[operand.index].name);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPacked(const Recipe& recipe, const PackedOperand& packed) {
  const OperandRef& source = packed.source;
  RETURN_IF_ERROR(CheckOperand(recipe, source, false));
  uint64_t available = 0;
  if (source.kind == OperandRef::Kind::kPersistent) {
    available = TensorBytes(recipe.tensors[source.index]);
  } else if (source.kind == OperandRef::Kind::kConstant) {
    available = recipe.constants.size();
  } else {
    return DataLoss("source is neither a persistent tensor nor a constant");
  }
  if (packed.source_bytes > available - source.offset) {
    return DataLoss("source of ", packed.source_bytes, " bytes at ", source.offset, " of ",
                    available);
  }
  if (packed.packed_bytes > kMaxBytes) return DataLoss("packed size ", packed.packed_bytes);
  if (packed.restore_entry != PackedOperand::kNoEntry &&
      packed.restore_entry >= recipe.code.size()) {
    return DataLoss("restore entry ", packed.restore_entry, " in code of ", recipe.code.size());
  }
  if (packed.kernel.custom != KernelLaunch::kOwnCode) return DataLoss("a custom kernel packs");
  return CheckKernel(recipe, packed.kernel);
}

}  // namespace

uint64_t ElementSize(synDataType dtype) {
  if (dtype == syn_type_na) return 0;
#define HPU_DTYPE(symbol, name, bytes, kind, host, torch_type, device, ...) \
  if (dtype == device) return bytes;
#include "base/dtypes.inc"
#undef HPU_DTYPE
  switch (dtype) {  // types of the device only, which no tensor of PyTorch has
    case syn_type_ufp16:
      return 2;
    case syn_type_tf32:
    case syn_type_hb_float:
      return 4;
    default:
      return 0;
  }
}

uint64_t TensorBytes(const RecipeTensor& tensor) {
  uint64_t bytes = ElementSize(tensor.dtype);
  for (const uint64_t size : tensor.sizes) bytes *= size;
  return bytes;
}

absl::Status ValidateRecipe(const Recipe& recipe) {
  for (const RecipeTensor& tensor : recipe.tensors) RETURN_IF_ERROR(CheckTensor(tensor));
  if (recipe.workspace_bytes % 128 != 0 || recipe.workspace_bytes > kMaxBytes) {
    return DataLoss("workspace of ", recipe.workspace_bytes, " bytes");
  }
  if (recipe.code.size() > std::numeric_limits<int32_t>::max()) return DataLoss("code too large");
  for (const PackedOperand& packed : recipe.packed) {
    RETURN_IF_ERROR_AT(CheckPacked(recipe, packed), "packed operand");
  }
  for (const KernelLaunch& kernel : recipe.kernels) RETURN_IF_ERROR(CheckKernel(recipe, kernel));
  return CheckPrologue(recipe);
}

}  // namespace hpu
