#include "tests/contraction/harness.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "recipe/isa.h"
#include "tests/contraction/amx_interpreter.h"

namespace hpu::graph_compiler {

std::vector<IsaLevel> RunnableLevels() {
  std::vector<IsaLevel> levels;
  for (const IsaLevel isa :
       {IsaLevel::kV2, IsaLevel::kV3, IsaLevel::kV4, IsaLevel::kV4Bf16, IsaLevel::kV4Amx}) {
    if (HostIsaLevel().has_value() && isa <= *HostIsaLevel()) levels.push_back(isa);
  }
  return levels;
}

std::vector<IsaLevel> TestedLevels() {
  std::vector<IsaLevel> levels = RunnableLevels();
  if (levels.back() == IsaLevel::kV4Bf16) {
    InstallAmxInterpreter();
    levels.push_back(IsaLevel::kV4Amx);
  }
  return levels;
}

std::string LevelName(IsaLevel isa) {
  return std::string(IsaLevelName(isa).substr(std::string_view("x86-64-").size()));
}

float FromBF16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t ToBF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float FromF16(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const float fraction = static_cast<float>(bits & 1023) / 1024;
  float value;
  if (exponent == 31) {
    value = fraction == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    value = std::ldexp(fraction, -14);
  } else {
    value = std::ldexp(1 + fraction, exponent - 15);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

uint16_t ToF16(float value) {
  if (value == 0) return 0;
  int exponent;
  const float mantissa = std::frexp(std::fabs(value), &exponent);  // [0.5, 1)
  const int biased = exponent + 14;
  if (biased <= 0) return value < 0 ? 0x8000 : 0;
  const auto fraction = static_cast<uint16_t>((mantissa * 2 - 1) * 1024);
  return static_cast<uint16_t>((value < 0 ? 0x8000 : 0) | (biased << 10) | fraction);
}

TestBuffer::TestBuffer(MemoryType type, int64_t elements)
    : type_(type),
      elements_(elements),
      bytes_(static_cast<size_t>(elements * MemoryTypeSize(type)) + 2 * kGuard, 0xff) {}

float TestBuffer::Get(int64_t i) const {
  const uint8_t* at = bytes_.data() + kGuard + i * MemoryTypeSize(type_);
  uint16_t half;
  float single;
  switch (type_) {
    case MemoryType::kF32:
      std::memcpy(&single, at, 4);
      return single;
    case MemoryType::kBool:
      return *at;
    default:
      std::memcpy(&half, at, 2);
      return type_ == MemoryType::kBF16 ? FromBF16(half) : FromF16(half);
  }
}

void TestBuffer::Set(int64_t i, float value) {
  uint8_t* at = bytes_.data() + kGuard + i * MemoryTypeSize(type_);
  if (type_ == MemoryType::kF32) {
    std::memcpy(at, &value, 4);
  } else if (type_ == MemoryType::kBool) {
    *at = value != 0;
  } else {
    const uint16_t half = type_ == MemoryType::kBF16 ? ToBF16(value) : ToF16(value);
    std::memcpy(at, &half, 2);
  }
}

void TestBuffer::FillRandom(uint32_t seed, float low, float high) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(low, high);
  for (int64_t i = 0; i < elements_; ++i) Set(i, uniform(generator));
}

bool TestBuffer::GuardsIntact() const {
  for (size_t i = 0; i < kGuard; ++i) {
    if (bytes_[i] != 0xff || bytes_[bytes_.size() - 1 - i] != 0xff) return false;
  }
  return true;
}

CompiledContraction::CompiledContraction(IsaLevel isa, const EmitFn& emit) {
  const std::clock_t start = std::clock();
  KernelModule module(TargetInfoFor(isa));
  ContractionEmitter emitter(module);
  absl::StatusOr<EmittedKernels> kernels = emit(emitter);
  if (!kernels.ok()) std::fprintf(stderr, "%s\n", ToText(kernels.status()).c_str());
  HPU_CHECK(kernels.ok(), "emit");
  kernels_ = *std::move(kernels);
  if (std::getenv("HPU_TEST_PRINT_IR") != nullptr) std::puts(module.ToText().c_str());
  absl::StatusOr<KernelModule::Image> image = module.Finish(SizesAs::kSymbols);
  if (!image.ok()) std::fprintf(stderr, "%s\n", ToText(image.status()).c_str());
  HPU_CHECK(image.ok(), "finish");
  compile_ms_ = 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  entries_ = image->entry_offsets;
  code_bytes_ = image->code.size();
  if (const char* path = std::getenv("HPU_TEST_DUMP_CODE")) {
    if (FILE* file = std::fopen(path, "wb")) {
      std::fwrite(image->code.data(), 1, image->code.size(), file);
      std::fclose(file);
    }
  }
  if (!image->code.empty()) image_ = std::make_unique<MappedImage>(image->code);
  workspace_.resize(kernels_.workspace_bytes + 64);
  for (const PackedOperand& packed : kernels_.packed) {
    packed_.emplace_back(packed.packed_bytes + 64, 0xff);
  }
}

void* CompiledContraction::Resolve(const OperandRef& ref, const std::vector<TestBuffer*>& buffers) {
  const auto aligned = [](std::vector<uint8_t>& bytes) {
    return reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(bytes.data()) + 63) / 64 * 64);
  };
  switch (ref.kind) {
    case OperandRef::Kind::kPersistent:
      return static_cast<uint8_t*>(buffers[ref.index]->data()) + ref.offset;
    case OperandRef::Kind::kWorkspace:
      HPU_CHECK(ref.index == kExtraWorkspace, "workspace operand");
      return aligned(workspace_) + ref.offset;
    case OperandRef::Kind::kPacked:
      return aligned(packed_[ref.index]) + ref.offset;
    default:
      return nullptr;
  }
}

void CompiledContraction::RunLaunch(const KernelLaunch& launch, const std::vector<void*>& operands,
                                    int splits, bool reverse) {
  const auto tasks = static_cast<int64_t>(launch.tasks);
  for (int i = 0; i < splits; ++i) {
    const int part = reverse ? splits - 1 - i : i;
    const int64_t begin = tasks * part / splits;
    const int64_t end = tasks * (part + 1) / splits;
    if (begin == end) continue;
    image_->Run(entries_[launch.entry], operands, begin, end, launch.scratch_bytes);
  }
}

void CompiledContraction::Pack(const std::vector<TestBuffer*>& buffers) {
  for (size_t i = 0; i < kernels_.packed.size(); ++i) {
    const PackedOperand& packed = kernels_.packed[i];
    HPU_CHECK(
        packed.source.offset + packed.source_bytes <= buffers[packed.source.index]->size_bytes(),
        "packed source range");
    const OperandRef destination{OperandRef::Kind::kPacked, static_cast<uint32_t>(i), 0};
    PackOne(i, Resolve(packed.source, buffers), Resolve(destination, buffers));
  }
}

void CompiledContraction::PackOne(size_t index, void* source, void* destination) {
  const PackedOperand& packed = kernels_.packed[index];
  RunLaunch(packed.kernel, {source, destination}, 1, false);
  if (packed.restore_entry == PackedOperand::kNoEntry) return;
  // For everything that a test packs, restoring gives the source.
  const auto* first = static_cast<const uint8_t*>(source);
  const std::vector<uint8_t> wanted(first, first + packed.source_bytes);
  std::memset(source, 0xA5, packed.source_bytes);
  KernelLaunch restore = packed.kernel;
  restore.entry = packed.restore_entry;
  RunLaunch(restore, {destination, source}, 1, false);
  HPU_CHECK(std::memcmp(source, wanted.data(), wanted.size()) == 0, "restored source");
}

void CompiledContraction::RunPacked(const std::vector<TestBuffer*>& buffers, int splits,
                                    bool reverse) {
  for (const KernelLaunch& launch : kernels_.launches) {
    std::vector<void*> operands;
    for (const OperandRef& ref : launch.operands) operands.push_back(Resolve(ref, buffers));
    RunLaunch(launch, operands, splits, reverse);
  }
}

void CompiledContraction::RunShare(const std::vector<TestBuffer*>& buffers, int part, int parts) {
  for (const KernelLaunch& launch : kernels_.launches) {
    std::vector<void*> operands;
    for (const OperandRef& ref : launch.operands) operands.push_back(Resolve(ref, buffers));
    const auto tasks = static_cast<int64_t>(launch.tasks);
    image_->Run(entries_[launch.entry], operands, tasks * part / parts, tasks * (part + 1) / parts,
                launch.scratch_bytes);
  }
}

void CompiledContraction::Run(const std::vector<TestBuffer*>& buffers, int splits, bool reverse) {
  Pack(buffers);
  RunPacked(buffers, splits, reverse);
}

BodyOp MakeOp(Opcode opcode, std::vector<uint32_t> args, double imm_f32) {
  BodyOp op;
  op.op = opcode;
  op.type = ScalarType::kF32;
  op.args = std::move(args);
  op.imm_f32 = imm_f32;
  return op;
}

void SetDense(GemmSpec& spec, int64_t k) {
  spec.a.buffer = Persistent(0);
  spec.a.row_stride = k;
  spec.a.col_stride = 1;
  spec.b.buffer = Persistent(1);
  spec.b.row_stride = 1;
  spec.b.col_stride = k;
  spec.b.stable = true;
}

Body StoreBody(MemoryType type, const std::vector<int64_t>& strides, int64_t offset) {
  Body body;
  body.ops.push_back(MakeOp(Opcode::kAccumulator));
  Store store;
  store.value = 0;
  store.access.operand = 0;
  store.access.type = type;
  store.access.strides = strides;
  store.access.offset = offset;
  body.stores.push_back(store);
  return body;
}

}  // namespace hpu::graph_compiler
