#include "backend/torch/generator.h"

#include <mutex>

#include "backend/torch/allocator.h"

namespace hpu::torch_backend {
namespace {

at::CPUGeneratorImpl& Twister(const at::Generator& generator) {
  return *at::check_generator<at::CPUGeneratorImpl>(generator);
}

// Copies where `from` stands in its sequence; the seeds stay.
void CopyPosition(at::Generator from, at::Generator to) {
  std::scoped_lock lock(from.mutex(), to.mutex());
  at::CPUGeneratorImpl& source = Twister(from);
  at::CPUGeneratorImpl& target = Twister(to);
  target.set_engine(source.engine());
  target.set_next_float_normal_sample(source.next_float_normal_sample());
  target.set_next_double_normal_sample(source.next_double_normal_sample());
}

}  // namespace

HpuGenerator::HpuGenerator(uint64_t seed) : HpuGenerator(at::detail::createCPUGenerator(seed)) {}

HpuGenerator::HpuGenerator(at::Generator engine)
    : c10::GeneratorImpl(kHpuDevice, c10::DispatchKeySet(c10::DispatchKey::HPU)),
      engine_(std::move(engine)) {}

void HpuGenerator::set_current_seed(uint64_t seed) { Twister(engine_).set_current_seed(seed); }

void HpuGenerator::set_offset(uint64_t offset) { Twister(engine_).set_offset(offset); }

uint64_t HpuGenerator::get_offset() const { return Twister(engine_).get_offset(); }

uint64_t HpuGenerator::current_seed() const { return Twister(engine_).current_seed(); }

uint64_t HpuGenerator::seed() { return Twister(engine_).seed(); }

void HpuGenerator::set_state(const c10::TensorImpl& state) { Twister(engine_).set_state(state); }

c10::intrusive_ptr<c10::TensorImpl> HpuGenerator::get_state() const {
  return Twister(engine_).get_state();
}

HpuGenerator* HpuGenerator::clone_impl() const { return new HpuGenerator(engine_.clone()); }

const at::Generator& DefaultGenerator() {
  static auto* generator = new at::Generator(c10::make_intrusive<HpuGenerator>());
  return *generator;
}

at::Generator EngineOf(const std::optional<at::Generator>& generator) {
  const at::Generator& chosen =
      generator.has_value() && generator->defined() ? *generator : DefaultGenerator();
  TORCH_CHECK(chosen.device().type() == c10::DeviceType::HPU,
              "Expected a 'hpu' device type for generator but found '", chosen.device().type(),
              "'");
  return static_cast<HpuGenerator*>(chosen.unsafeGetGeneratorImpl())->engine();
}

LendDefaultState::LendDefaultState() : saved_(at::detail::createCPUGenerator()) {
  const at::Generator& host = at::detail::getDefaultCPUGenerator();
  CopyPosition(host, saved_);
  CopyPosition(EngineOf(std::nullopt), host);
}

LendDefaultState::~LendDefaultState() {
  const at::Generator& host = at::detail::getDefaultCPUGenerator();
  CopyPosition(host, EngineOf(std::nullopt));
  CopyPosition(saved_, host);
}

}  // namespace hpu::torch_backend
