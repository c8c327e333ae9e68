#include "recipe/recipe.h"

#include "base/container.h"

namespace hpu {
namespace {

constexpr ContainerKind kKind = {
    {'H', 'P', 'U', 'R', 'E', 'C', 'I', 'P'}, kRecipeVersion, "recipe of the emulated device"};

void PutOperand(ByteWriter& out, const OperandRef& operand) {
  out.Put(operand.kind);
  out.Put(operand.index);
  out.Put(operand.offset);
}

void PutKernel(ByteWriter& out, const KernelLaunch& kernel) {
  out.Put(kernel.entry);
  out.Put(kernel.custom);
  out.Put(static_cast<uint32_t>(kernel.operands.size()));
  for (const OperandRef& operand : kernel.operands) PutOperand(out, operand);
  out.Put(kernel.tasks);
  out.Put(kernel.grain);
  out.Put(kernel.scratch_bytes);
  out.Put(kernel.engine);
  out.PutString(kernel.name);
  out.Put(kernel.flops);
  out.Put(kernel.bytes);
  out.Put(kernel.factors);
}

void PutCustomOperands(ByteWriter& out, const std::vector<CustomOperand>& operands) {
  out.Put(static_cast<uint32_t>(operands.size()));
  for (const CustomOperand& operand : operands) {
    out.Put(static_cast<uint32_t>(operand.dtype));
    out.PutVector(operand.sizes);
    out.PutVector(operand.strides);
  }
}

void PutTensor(ByteWriter& out, const RecipeTensor& tensor) {
  out.PutString(tensor.name);
  out.Put(static_cast<uint32_t>(tensor.type));
  out.Put(static_cast<uint32_t>(tensor.dtype));
  out.PutVector(tensor.sizes);
  out.PutVector(tensor.permutation);
  out.Put(tensor.section);
  out.Put(tensor.section_offset);
  out.Put<uint8_t>(tensor.is_input);
  out.Put<uint8_t>(tensor.is_written);
  out.Put<uint8_t>(tensor.external);
}

template <typename Enum>
absl::Status GetEnum(ByteReader& in, uint32_t last, const char* what, Enum* value) {
  std::underlying_type_t<Enum> number{};
  RETURN_IF_ERROR(in.Get(&number));
  if (static_cast<uint32_t>(number) > last) {
    return DataLoss(what, " ", static_cast<uint32_t>(number), " is not known");
  }
  *value = static_cast<Enum>(number);
  return absl::OkStatus();
}

absl::Status GetBool(ByteReader& in, bool* value) {
  uint8_t byte = 0;
  RETURN_IF_ERROR(in.Get(&byte));
  if (byte > 1) return DataLoss("boolean ", int{byte}, " before byte ", in.position());
  *value = byte == 1;
  return absl::OkStatus();
}

absl::Status GetOperand(ByteReader& in, OperandRef* operand) {
  RETURN_IF_ERROR(
      GetEnum(in, static_cast<uint32_t>(OperandRef::Kind::kKept), "operand kind", &operand->kind));
  RETURN_IF_ERROR(in.Get(&operand->index));
  return in.Get(&operand->offset);
}

absl::Status GetKernel(ByteReader& in, KernelLaunch* kernel) {
  RETURN_IF_ERROR(in.Get(&kernel->entry));
  RETURN_IF_ERROR(in.Get(&kernel->custom));
  uint32_t count = 0;
  RETURN_IF_ERROR(in.GetCount(&count, 13));
  kernel->operands.resize(count);
  for (OperandRef& operand : kernel->operands) RETURN_IF_ERROR(GetOperand(in, &operand));
  RETURN_IF_ERROR(in.Get(&kernel->tasks));
  RETURN_IF_ERROR(in.Get(&kernel->grain));
  RETURN_IF_ERROR(in.Get(&kernel->scratch_bytes));
  RETURN_IF_ERROR(GetEnum(in, static_cast<uint32_t>(Engine::kDma), "engine", &kernel->engine));
  RETURN_IF_ERROR(in.GetString(&kernel->name));
  RETURN_IF_ERROR(in.Get(&kernel->flops));
  RETURN_IF_ERROR(in.Get(&kernel->bytes));
  return GetEnum(in, static_cast<uint32_t>(Factors::kBf16), "factors", &kernel->factors);
}

absl::Status GetTensor(ByteReader& in, RecipeTensor* tensor) {
  RETURN_IF_ERROR(in.GetString(&tensor->name));
  uint32_t type = 0;
  uint32_t dtype = 0;
  RETURN_IF_ERROR(in.Get(&type));
  RETURN_IF_ERROR(in.Get(&dtype));
  if (type >= TENSOR_TYPE_MAX) return DataLoss("tensor kind ", type, " is not known");
  tensor->type = static_cast<synTensorType>(type);
  tensor->dtype = static_cast<synDataType>(dtype);
  RETURN_IF_ERROR(in.GetVector(&tensor->sizes));
  RETURN_IF_ERROR(in.GetVector(&tensor->permutation));
  RETURN_IF_ERROR(in.Get(&tensor->section));
  RETURN_IF_ERROR(in.Get(&tensor->section_offset));
  RETURN_IF_ERROR(GetBool(in, &tensor->is_input));
  RETURN_IF_ERROR(GetBool(in, &tensor->is_written));
  return GetBool(in, &tensor->external);
}

absl::Status GetBytesCopy(ByteReader& in, Bytes* bytes) {
  std::span<const uint8_t> view;
  RETURN_IF_ERROR(in.GetBytes(&view));
  bytes->assign(view.begin(), view.end());
  return absl::OkStatus();
}

absl::Status GetCustomOperands(ByteReader& in, std::vector<CustomOperand>* operands) {
  uint32_t count = 0;
  RETURN_IF_ERROR(in.GetCount(&count, 12));
  operands->resize(count);
  for (CustomOperand& operand : *operands) {
    uint32_t dtype = 0;
    RETURN_IF_ERROR(in.Get(&dtype));
    operand.dtype = static_cast<synDataType>(dtype);
    RETURN_IF_ERROR(in.GetVector(&operand.sizes));
    RETURN_IF_ERROR(in.GetVector(&operand.strides));
  }
  return absl::OkStatus();
}

absl::Status GetCustomKernels(ByteReader& in, std::vector<CustomKernel>* kernels) {
  uint32_t count = 0;
  RETURN_IF_ERROR(in.GetCount(&count, 24));
  kernels->resize(count);
  for (CustomKernel& kernel : *kernels) {
    RETURN_IF_ERROR(in.GetString(&kernel.guid));
    RETURN_IF_ERROR(in.Get(&kernel.version));
    RETURN_IF_ERROR(GetBytesCopy(in, &kernel.params));
    RETURN_IF_ERROR(GetCustomOperands(in, &kernel.inputs));
    RETURN_IF_ERROR(GetCustomOperands(in, &kernel.outputs));
  }
  return absl::OkStatus();
}

absl::Status GetBody(ByteReader& in, Recipe* recipe) {
  RETURN_IF_ERROR(in.GetString(&recipe->name));
  uint32_t device_type = 0;
  RETURN_IF_ERROR(in.Get(&device_type));
  if (device_type >= synDeviceTypeSize) {
    return DataLoss("device type ", device_type, " is not known");
  }
  recipe->device_type = static_cast<synDeviceType>(device_type);
  RETURN_IF_ERROR(GetEnum(in, static_cast<uint32_t>(IsaLevel::kV4Amx), "ISA level", &recipe->isa));
  if (recipe->isa < IsaLevel::kV2) return DataLoss("ISA level below 2");
  uint32_t count = 0;
  RETURN_IF_ERROR(in.GetCount(&count, 35));
  recipe->tensors.resize(count);
  for (RecipeTensor& tensor : recipe->tensors) RETURN_IF_ERROR(GetTensor(in, &tensor));
  RETURN_IF_ERROR(in.Get(&recipe->workspace_bytes));
  RETURN_IF_ERROR(GetBytesCopy(in, &recipe->constants));
  RETURN_IF_ERROR(GetBytesCopy(in, &recipe->code));
  RETURN_IF_ERROR(in.GetCount(&count, 33));
  recipe->packed.resize(count);
  for (PackedOperand& packed : recipe->packed) {
    RETURN_IF_ERROR(GetOperand(in, &packed.source));
    RETURN_IF_ERROR(in.Get(&packed.source_bytes));
    RETURN_IF_ERROR(in.Get(&packed.packed_bytes));
    RETURN_IF_ERROR(GetKernel(in, &packed.kernel));
    RETURN_IF_ERROR(in.Get(&packed.restore_entry));
    RETURN_IF_ERROR(in.GetString(&packed.format));
  }
  RETURN_IF_ERROR(in.GetCount(&count, 53));
  recipe->kernels.resize(count);
  for (KernelLaunch& kernel : recipe->kernels) RETURN_IF_ERROR(GetKernel(in, &kernel));
  RETURN_IF_ERROR(in.Get(&recipe->prologue));
  RETURN_IF_ERROR(in.Get(&recipe->kept_bytes));
  RETURN_IF_ERROR(in.GetCount(&count, 12));
  recipe->const_sections.resize(count);
  for (ConstSection& section : recipe->const_sections) {
    RETURN_IF_ERROR(in.Get(&section.section));
    RETURN_IF_ERROR(GetBytesCopy(in, &section.data));
  }
  RETURN_IF_ERROR(GetCustomKernels(in, &recipe->custom_kernels));
  if (in.remaining() != 0) return DataLoss(in.remaining(), " bytes after the end");
  return absl::OkStatus();
}

}  // namespace

Bytes EncodeRecipe(const Recipe& recipe) {
  ByteWriter out = BeginContainer(kKind);
  out.PutString(recipe.name);
  out.Put(static_cast<uint32_t>(recipe.device_type));
  out.Put(recipe.isa);
  out.Put(static_cast<uint32_t>(recipe.tensors.size()));
  for (const RecipeTensor& tensor : recipe.tensors) PutTensor(out, tensor);
  out.Put(recipe.workspace_bytes);
  out.PutBytes(recipe.constants);
  out.PutBytes(recipe.code);
  out.Put(static_cast<uint32_t>(recipe.packed.size()));
  for (const PackedOperand& packed : recipe.packed) {
    PutOperand(out, packed.source);
    out.Put(packed.source_bytes);
    out.Put(packed.packed_bytes);
    PutKernel(out, packed.kernel);
    out.Put(packed.restore_entry);
    out.PutString(packed.format);
  }
  out.Put(static_cast<uint32_t>(recipe.kernels.size()));
  for (const KernelLaunch& kernel : recipe.kernels) PutKernel(out, kernel);
  out.Put(recipe.prologue);
  out.Put(recipe.kept_bytes);
  out.Put(static_cast<uint32_t>(recipe.const_sections.size()));
  for (const ConstSection& section : recipe.const_sections) {
    out.Put(section.section);
    out.PutBytes(section.data);
  }
  out.Put(static_cast<uint32_t>(recipe.custom_kernels.size()));
  for (const CustomKernel& kernel : recipe.custom_kernels) {
    out.PutString(kernel.guid);
    out.Put(kernel.version);
    out.PutBytes(kernel.params);
    PutCustomOperands(out, kernel.inputs);
    PutCustomOperands(out, kernel.outputs);
  }
  return SealContainer(std::move(out));
}

absl::StatusOr<Recipe> DecodeRecipe(std::span<const uint8_t> bytes) {
  ASSIGN_OR_RETURN(const std::span<const uint8_t> body, OpenContainer(kKind, bytes));
  Recipe recipe;
  ByteReader in(body);
  RETURN_IF_ERROR_AT(GetBody(in, &recipe), "recipe");
  RETURN_IF_ERROR_AT(ValidateRecipe(recipe), "recipe " + recipe.name);
  return recipe;
}

}  // namespace hpu
