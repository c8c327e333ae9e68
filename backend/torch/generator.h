// Random numbers on hpu: one generator per device (plus those users make), each a Mersenne twister
// that lends its state to the CPU kernels that draw the numbers.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

namespace hpu::torch_backend {

class HpuGenerator final : public c10::GeneratorImpl {
 public:
  explicit HpuGenerator(uint64_t seed = c10::default_rng_seed_val);
  explicit HpuGenerator(at::Generator engine);
  static c10::DeviceType device_type() { return c10::DeviceType::HPU; }

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  // The CPU generator that advances this one; CPU kernels take it and lock it themselves.
  const at::Generator& engine() const { return engine_; }

 private:
  HpuGenerator* clone_impl() const override;

  at::Generator engine_;
};

// The device's generator.
const at::Generator& DefaultGenerator();

// The CPU generator behind `generator`: of the device's own if undefined. Throws PyTorch's usual
// error for a generator of another device.
at::Generator EngineOf(const std::optional<at::Generator>& generator);

// Lends the device generator's state to the default CPU generator for its lifetime: for CPU kernels
// that draw without taking a generator. Another thread that draws from the default CPU generator
// meanwhile takes part of the same sequence; PyTorch offers no way to name the generator there.
class LendDefaultState {
 public:
  LendDefaultState();
  ~LendDefaultState();
  LendDefaultState(const LendDefaultState&) = delete;
  LendDefaultState& operator=(const LendDefaultState&) = delete;

 private:
  at::Generator saved_;
};

}  // namespace hpu::torch_backend
