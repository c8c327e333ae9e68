#include "emulator/runtime/loaded_recipe.h"

#include <algorithm>
#include <cstring>

#include "recipe/isa.h"

namespace hpu::emulator {
namespace {

// Waking threads and waiting for them costs about a microsecond. In that time one core computes or
// moves about this much.
constexpr uint64_t kOneThreadFlops = 60'000;
constexpr uint64_t kOneThreadBytes = 32'768;

// Giving pages back and faulting them in again has a cost per call, so smaller sources are not
// evicted.
constexpr uint64_t kLeastEvictedBytes = 64 << 10;

}  // namespace

LoadedRecipe::LoadedRecipe(Recipe recipe) : recipe_(std::move(recipe)) {
  for (uint32_t i = 0; i < num_tensors(); ++i) {
    const RecipeTensor& tensor = recipe_.tensors[i];
    tensor_bytes_.push_back(TensorBytes(tensor));
    by_name_.emplace(tensor.name, i);
    if (tensor.is_written) written_.push_back(i);
    plain_tables_ = plain_tables_ && tensor.type == DATA_TENSOR;
  }
  for (ConstSection& section : recipe_.const_sections) {
    ConstSectionData& data = const_sections_[section.section];
    data.size = section.data.size();
    data.data.reset(new uint8_t[section.data.size()]);
    if (!section.data.empty()) {
      std::memcpy(data.data.get(), section.data.data(), section.data.size());
    }
    section.data = Bytes();
  }
  PlanSections();
  PlanKernels();
  PlanPacked();
  PlanPrologue();
  PlanExternals();
  pack_memo_.resize(recipe_.packed.size());
}

LoadedRecipe::~LoadedRecipe() {
  if (on_unload == nullptr) return;
  if (constants_.size() != 0) {
    on_unload(reinterpret_cast<uint64_t>(constants_.data()), constants_.size());
  }
  if (recipe_.prologue != 0) on_unload(reinterpret_cast<uint64_t>(this), 1);
}

void LoadedRecipe::PlanSections() {
  std::map<uint32_t, uint32_t> position;
  for (uint32_t i = 0; i < num_tensors(); ++i) {
    const RecipeTensor& tensor = recipe_.tensors[i];
    const auto [it, added] =
        position.emplace(tensor.section, static_cast<uint32_t>(sections_.size()));
    if (added) {
      sections_.push_back({.id = tensor.section, .begin = ~uint64_t{0}, .end = 0, .tensors = {}});
    }
    RecipeSection& section = sections_[it->second];
    section.begin = std::min(section.begin, tensor.section_offset);
    section.end = std::max(section.end, tensor.section_offset + tensor_bytes_[i]);
    section.tensors.push_back(i);
    section_of_.push_back(it->second);
  }
}

void LoadedRecipe::PlanKernels() {
  first_operand_.push_back(0);
  for (const KernelLaunch& kernel : recipe_.kernels) {
    first_operand_.push_back(first_operand_.back() + static_cast<uint32_t>(kernel.operands.size()));
    max_scratch_bytes_ = std::max(max_scratch_bytes_, kernel.scratch_bytes);
    one_thread_.push_back(
        (kernel.custom == KernelLaunch::kOwnCode && kernel.tasks <= kernel.grain) ||
        (kernel.flops + kernel.bytes > 0 && kernel.flops < kOneThreadFlops &&
         kernel.bytes < kOneThreadBytes));
  }
  for (const PackedOperand& packed : recipe_.packed) {
    max_scratch_bytes_ = std::max(max_scratch_bytes_, packed.kernel.scratch_bytes);
  }
}

void LoadedRecipe::PlanPacked() {
  std::vector<bool> direct(num_tensors(), false);
  for (const KernelLaunch& kernel : recipe_.kernels) {
    for (const OperandRef& operand : kernel.operands) {
      if (operand.kind == OperandRef::Kind::kPersistent) direct[operand.index] = true;
    }
  }
  for (uint32_t i = 0; i < num_tensors(); ++i) {
    if (direct[i]) direct_.push_back(i);
  }
  for (const PackedOperand& packed : recipe_.packed) {
    evictable_.push_back(packed.restore_entry != PackedOperand::kNoEntry &&
                         packed.source.kind == OperandRef::Kind::kPersistent &&
                         !direct[packed.source.index] && packed.source_bytes >= kLeastEvictedBytes);
  }
}

void LoadedRecipe::PlanPrologue() {
  std::vector<bool> read(num_tensors(), false);
  for (uint32_t k = 0; k < recipe_.prologue; ++k) {
    for (const OperandRef& operand : recipe_.kernels[k].operands) {
      const OperandRef& source = operand.kind == OperandRef::Kind::kPacked
                                     ? recipe_.packed[operand.index].source
                                     : operand;
      if (source.kind == OperandRef::Kind::kPersistent) read[source.index] = true;
    }
  }
  for (uint32_t i = 0; i < num_tensors(); ++i) {
    if (read[i]) prologue_tensors_.push_back(i);
  }
}

// A tensor is ready after the last kernel that has it as an operand: the recipe does not record
// which operands a kernel writes, and no kernel touches the tensor later.
void LoadedRecipe::PlanExternals() {
  std::vector<uint32_t> ready(num_tensors(), 0);
  for (uint32_t k = 0; k < recipe_.kernels.size(); ++k) {
    for (const OperandRef& operand : recipe_.kernels[k].operands) {
      if (operand.kind == OperandRef::Kind::kPersistent) ready[operand.index] = k + 1;
    }
  }
  for (uint32_t i = 0; i < num_tensors(); ++i) {
    if (recipe_.tensors[i].external) external_.push_back(i);
  }
  std::stable_sort(external_.begin(), external_.end(),
                   [&](uint32_t a, uint32_t b) { return ready[a] < ready[b]; });
  for (const uint32_t tensor : external_) external_ready_after_.push_back(ready[tensor]);
}

std::optional<uint32_t> LoadedRecipe::FindTensor(const std::string& name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return std::nullopt;
  return found->second;
}

std::optional<uint32_t> LoadedRecipe::IndexOfId(uint64_t id) const {
  const uint64_t index = id & SYN_TENSOR_ID_INDEX_MASK;
  if (index >= num_tensors() || tensor_id(static_cast<uint32_t>(index)) != id) {
    return std::nullopt;
  }
  return static_cast<uint32_t>(index);
}

absl::Status LoadedRecipe::EnsureExecutable() {
  if (mapped_.load(std::memory_order_acquire)) return absl::OkStatus();
  std::lock_guard lock(map_mutex_);
  if (mapped_.load(std::memory_order_relaxed)) return absl::OkStatus();
  RETURN_IF_ERROR(MapLocked());
  mapped_.store(true, std::memory_order_release);
  return absl::OkStatus();
}

absl::Status LoadedRecipe::MapLocked() {
  const std::optional<IsaLevel> host = HostIsaLevel();
  if (!host.has_value() || *host < recipe_.isa) {
    return Error(absl::StatusCode::kFailedPrecondition, "recipe ", recipe_.name,
                 " was compiled for ", IsaLevelName(recipe_.isa), ", this CPU has ",
                 host.has_value() ? IsaLevelName(*host) : "less than x86-64-v2",
                 "; compile it with EMULATOR_ISA_LEVEL set to the host's level");
  }
  AlignedBuffer constants(recipe_.constants.size());
  if (constants.size() != recipe_.constants.size()) {
    return Error(absl::StatusCode::kResourceExhausted, "no memory for ", recipe_.constants.size(),
                 " bytes of constants");
  }
  if (constants.size() != 0) {
    std::memcpy(constants.data(), recipe_.constants.data(), constants.size());
  }
  std::vector<PreparedKernel> custom_kernels;
  for (const CustomKernel& custom : recipe_.custom_kernels) {
    absl::StatusOr<PreparedKernel> prepared = PreparedKernel::Prepare(custom);
    if (!prepared.ok()) return Annotate(prepared.status(), "recipe " + recipe_.name);
    custom_kernels.push_back(*prepared);
  }
  RETURN_IF_ERROR(code_->Map(recipe_.code));
  custom_kernels_ = std::move(custom_kernels);
  constants_ = std::move(constants);
  return absl::OkStatus();
}

Bytes LoadedRecipe::Encode() {
  Recipe copy = recipe_;
  std::lock_guard lock(const_mutex_);
  for (ConstSection& section : copy.const_sections) {
    const ConstSectionData& data = const_sections_[section.section];
    if (data.data != nullptr) {
      section.data.assign(data.data.get(), data.data.get() + data.size);
    }
  }
  return EncodeRecipe(copy);
}

}  // namespace hpu::emulator
