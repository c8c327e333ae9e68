#include "backend/torch/device/generator.h"

#include <cstring>
#include <mutex>

#include "backend/torch/device/allocator.h"
#include "backend/torch/pytorch/unstable_torch.h"
#include "base/philox.h"

namespace hpu::torch_backend {
namespace {

at::CPUGeneratorImpl& Twister(const at::Generator& generator) {
  return *at::check_generator<at::CPUGeneratorImpl>(generator);
}

// Copies the position of `from` in its sequence; the seeds stay.
void CopyPosition(at::Generator from, at::Generator to) {
  std::scoped_lock lock(from.mutex(), to.mutex());
  at::CPUGeneratorImpl& source = Twister(from);
  at::CPUGeneratorImpl& target = Twister(to);
  target.set_engine(source.engine());
  target.set_next_float_normal_sample(source.next_float_normal_sample());
  target.set_next_double_normal_sample(source.next_double_normal_sample());
}

}  // namespace

HpuGenerator::HpuGenerator(uint64_t seed)
    : c10::GeneratorImpl(kHpuDevice, c10::DispatchKeySet(c10::DispatchKey::HPU)), place_{seed, 0} {}

void HpuGenerator::set_current_seed(uint64_t seed) { place_ = {seed, 0}; }

void HpuGenerator::set_offset(uint64_t offset) { place_.offset = offset; }

uint64_t HpuGenerator::get_offset() const { return place_.offset; }

uint64_t HpuGenerator::current_seed() const { return place_.seed; }

uint64_t HpuGenerator::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return place_.seed;
}

void HpuGenerator::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  TORCH_CHECK(state.numel() == sizeof(place_), "the random state of hpu has ", sizeof(place_),
              " bytes, seed and offset; given: ", state.numel());
  std::memcpy(&place_, state.data(), sizeof(place_));
}

c10::intrusive_ptr<c10::TensorImpl> HpuGenerator::get_state() const {
  // This is real memory even while a mode turns dispatched tensors into fake ones.
  const at::Tensor state = at::detail::empty_cpu({static_cast<int64_t>(sizeof(place_))},
                                                 at::TensorOptions().dtype(at::kByte));
  std::memcpy(state.mutable_data_ptr(), &place_, sizeof(place_));
  return state.getIntrusivePtr();
}

RandomPlace HpuGenerator::Take(uint64_t blocks) {
  const RandomPlace taken = place_;
  place_.offset += blocks;
  return taken;
}

HpuGenerator* HpuGenerator::clone_impl() const {
  auto* clone = new HpuGenerator(place_.seed);
  clone->place_ = place_;
  return clone;
}

const at::Generator& DefaultGenerator() {
  static auto* generator = new at::Generator(c10::make_intrusive<HpuGenerator>());
  return *generator;
}

RandomPlace TakeRandom(const std::optional<at::Generator>& generator, uint64_t blocks) {
  at::Generator chosen =
      generator.has_value() && generator->defined() ? *generator : DefaultGenerator();
  TORCH_CHECK(chosen.device().type() == c10::DeviceType::HPU,
              "Expected a 'hpu' device type for generator but found '", chosen.device().type(),
              "'");
  const std::lock_guard lock(chosen.mutex());
  return static_cast<HpuGenerator*>(chosen.unsafeGetGeneratorImpl())->Take(blocks);
}

at::Generator LendEngine(const std::optional<at::Generator>& generator) {
  const RandomPlace place = TakeRandom(generator, 1);
  const PhiloxBlock block = PhiloxBlockOf(place.seed, place.offset);
  return at::detail::createCPUGenerator(uint64_t{block[1]} << 32 | block[0]);
}

LendDefaultState::LendDefaultState() : saved_(at::detail::createCPUGenerator()) {
  const at::Generator& host = at::detail::getDefaultCPUGenerator();
  CopyPosition(host, saved_);
  CopyPosition(LendEngine(std::nullopt), host);
}

LendDefaultState::~LendDefaultState() {
  CopyPosition(saved_, at::detail::getDefaultCPUGenerator());
}

}  // namespace hpu::torch_backend
