// Random numbers on hpu: one generator per device, plus those that users make. Each is a place in a
// stream of Philox blocks (base/philox.h): a seed, and the number of the next block. A draw takes
// blocks and advances the place; programs and kernels calculate the numbers from it.
//
// The state as a tensor is uint8[16]: seed and offset (in blocks), 8 bytes each, little endian.
#pragma once

#include <ATen/ATen.h>

#include <optional>

#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {

// The place in the stream where the numbers of a draw begin.
struct RandomPlace {
  uint64_t seed = 0;
  uint64_t offset = 0;
};

class HpuGenerator final : public c10::GeneratorImpl {
 public:
  explicit HpuGenerator(uint64_t seed = c10::default_rng_seed_val);
  static c10::DeviceType device_type() { return c10::DeviceType::HPU; }

  void set_current_seed(uint64_t seed) override;  // also sets the offset to 0
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  // The caller holds the mutex.
  RandomPlace Take(uint64_t blocks);

 private:
  HpuGenerator* clone_impl() const override;

  RandomPlace place_;  // mutex_ guards it
};

// Returns the device's generator.
const at::Generator& DefaultGenerator();

// Takes blocks of `generator`, or of the device's own generator if it is undefined. Throws
// PyTorch's usual error for a generator of another device.
RandomPlace TakeRandom(const std::optional<at::Generator>& generator, uint64_t blocks);

// Returns a CPU generator that is seeded from the next block, for draws that CPU kernels do.
at::Generator LendEngine(const std::optional<at::Generator>& generator);

// Makes the default CPU generator such a generator while this object lives, for CPU kernels that
// draw without taking a generator. If another thread draws from it in the meantime, it takes part
// of the same sequence; PyTorch offers no way to name the generator there.
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
