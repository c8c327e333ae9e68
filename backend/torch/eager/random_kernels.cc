// Runs eagerly the draws that compiled graphs contain as device work
// (compiler_server/passes/decompose/random.cc): they give the same numbers for a place in the
// stream and take as many blocks.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

#include "backend/torch/device/dtypes.h"
#include "backend/torch/device/generator.h"
#include "backend/torch/eager/fallback.h"
#include "backend/torch/eager/host_access.h"
#include "backend/torch/eager/own_kernel.h"
#include "backend/torch/pytorch/unstable_torch.h"
#include "base/distributions.h"
#include "base/parallel.h"
#include "base/philox.h"

namespace hpu::torch_backend {
namespace {

using at::Tensor;
using MaybeGenerator = std::optional<at::Generator>;

// The number of blocks that one core calculates at a time.
constexpr uint64_t kBlocksAtOnce = 1 << 13;

// Calls write(i, bits) for the numbers [0, count) from a place of the stream on, on several
// threads.
template <typename Write>
void Draw(const RandomPlace& place, uint64_t count, const Write& write) {
  const uint64_t pieces = (PhiloxBlocks(count) + kBlocksAtOnce - 1) / kBlocksAtOnce;
  ParallelFor(pieces, static_cast<size_t>(at::get_num_threads()), [&](size_t piece) {
    const uint64_t end = std::min(count, (piece + 1) * kBlocksAtOnce * 4);
    for (uint64_t i = piece * kBlocksAtOnce * 4; i < end; i += 4) {
      const PhiloxBlock block = PhiloxBlockOf(place.seed, place.offset + i / 4);
      for (uint64_t k = 0; k < std::min<uint64_t>(4, end - i); ++k) write(i + k, block[k]);
    }
  });
}

// Fills row-major memory on the host, which becomes the new content of `self`.
template <typename Fill>
Tensor& Write(Tensor& self, const Fill& fill) {
  if (self.numel() == 0) return self;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  HostAccess host;
  Tensor target = host.ToHost(self, /*written=*/true);
  Tensor values = target.is_contiguous() ? target : at::empty(target.sizes(), target.options());
  fill(values);
  if (!values.is_same(target)) target.copy_(values);
  host.Finish();
  return self;
}

// Types that hold fewer bits than f32 get only as many as they hold, so that no number becomes 1.
template <typename T>
float UniformOf(uint32_t bits) {
  if (std::is_same_v<T, at::BFloat16>) return static_cast<float>(bits >> 24) * 0x1p-8F;
  if (std::is_same_v<T, at::Half>) return static_cast<float>(bits >> 21) * 0x1p-11F;
  return UniformFromBits(bits);
}

template <typename T>
void FillUniform(const RandomPlace& place, double from, double to, Tensor& values) {
  T* data = values.mutable_data_ptr<T>();
  const auto low = static_cast<float>(from);
  const auto width = static_cast<float>(to - from);
  Draw(place, static_cast<uint64_t>(values.numel()), [&](uint64_t i, uint32_t bits) {
    data[i] = static_cast<T>(UniformOf<T>(bits) * width + low);
  });
}

// These take 53 bits, from two numbers each. No recipe holds f64, so they are always drawn here.
template <>
void FillUniform<double>(const RandomPlace& place, double from, double to, Tensor& values) {
  auto* data = values.mutable_data_ptr<double>();
  const auto count = static_cast<uint64_t>(values.numel());
  for (uint64_t i = 0; i < count; ++i) {
    const PhiloxBlock block = PhiloxBlockOf(place.seed, place.offset + i / 2);
    const uint64_t bits = uint64_t{block[i % 2 * 2 + 1]} << 32 | block[i % 2 * 2];
    data[i] = static_cast<double>(bits >> 11) * 0x1p-53 * (to - from) + from;
  }
}

Tensor& Uniform(Tensor& self, double from, double to, MaybeGenerator generator) {
  TORCH_CHECK(from <= to, "uniform_ expects to return a [from, to) range, but found from=", from,
              " > to=", to);
  const auto count = static_cast<uint64_t>(self.numel());
  const bool wide = self.scalar_type() == at::kDouble;
  const RandomPlace place = TakeRandom(generator, PhiloxBlocks(wide ? 2 * count : count));
  return Write(self, [&](Tensor& values) {
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, values.scalar_type(), "uniform_hpu",
                                    [&] { FillUniform<scalar_t>(place, from, to, values); });
  });
}

// Fills with true with the probability that chance(i) returns.
template <typename Chance>
Tensor& FillBernoulli(Tensor& self, const RandomPlace& place, const Chance& chance) {
  return Write(self, [&](Tensor& values) {
    AT_DISPATCH_ALL_TYPES_AND3(
        at::kBool, at::kBFloat16, at::kHalf, values.scalar_type(), "bernoulli_hpu", [&] {
          auto* data = values.mutable_data_ptr<scalar_t>();
          Draw(place, static_cast<uint64_t>(values.numel()), [&](uint64_t i, uint32_t bits) {
            data[i] = static_cast<scalar_t>(UniformFromBits(bits) < chance(i));
          });
        });
  });
}

RandomPlace TakeFor(const Tensor& self, const MaybeGenerator& generator) {
  return TakeRandom(generator, PhiloxBlocks(static_cast<uint64_t>(self.numel())));
}

Tensor& Bernoulli(Tensor& self, double p, MaybeGenerator generator) {
  TORCH_CHECK(0 <= p && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
  const auto chance = static_cast<float>(p);
  return FillBernoulli(self, TakeFor(self, generator), [&](uint64_t) { return chance; });
}

Tensor& BernoulliTensor(Tensor& self, const Tensor& p, MaybeGenerator generator) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const Tensor chances =
      p.to(at::TensorOptions().dtype(at::kFloat).device(at::kCPU)).expand_as(self).contiguous();
  const float* chance = chances.const_data_ptr<float>();
  const auto valid = [&](int64_t i) { return 0 <= chance[i] && chance[i] <= 1; };
  for (int64_t i = 0; i < chances.numel(); ++i) {
    TORCH_CHECK(valid(i), "Expected p_in >= 0 && p_in <= 1 to be true, but got false.");
  }
  return FillBernoulli(self, TakeFor(self, generator), [&](uint64_t i) { return chance[i]; });
}

template <typename T>
void FillNormal(const RandomPlace& place, double mean, double std, Tensor& values) {
  T* data = values.mutable_data_ptr<T>();
  const auto count = static_cast<uint64_t>(values.numel());
  const auto shift = static_cast<float>(mean);
  const auto scale = static_cast<float>(std);
  const uint64_t second = place.offset + PhiloxBlocks(count);
  const uint64_t pieces = (PhiloxBlocks(count) + kBlocksAtOnce - 1) / kBlocksAtOnce;
  ParallelFor(pieces, static_cast<size_t>(at::get_num_threads()), [&](size_t piece) {
    const uint64_t end = std::min(count, (piece + 1) * kBlocksAtOnce * 4);
    for (uint64_t i = piece * kBlocksAtOnce * 4; i < end; i += 4) {
      const PhiloxBlock u = PhiloxBlockOf(place.seed, place.offset + i / 4);
      const PhiloxBlock v = PhiloxBlockOf(place.seed, second + i / 4);
      for (uint64_t k = 0; k < std::min<uint64_t>(4, end - i); ++k) {
        const float number =
            NormalFromUniform(HostArithmetic(), UniformFromBits(u[k]), UniformFromBits(v[k]));
        data[i + k] = static_cast<T>(number * scale + shift);
      }
    }
  });
}

Tensor& Normal(Tensor& self, double mean, double std, MaybeGenerator generator) {
  TORCH_CHECK(std >= 0, "normal expects std >= 0.0, but found std ", std);
  if (self.scalar_type() == at::kDouble || self.is_complex()) {  // no recipe holds them
    return at::native::call_fallback_fn<&RunOnCpu, ATEN_OP(normal_)>::call(self, mean, std,
                                                                           generator);
  }
  const auto count = static_cast<uint64_t>(self.numel());
  const RandomPlace place = TakeRandom(generator, 2 * PhiloxBlocks(count));
  return Write(self, [&](Tensor& values) {
    AT_DISPATCH_SWITCH(
        values.scalar_type(), "normal_hpu", AT_DISPATCH_CASE(at::kFloat, [&] {
          FillNormal<scalar_t>(place, mean, std, values);
        }) AT_DISPATCH_CASE(at::kBFloat16, [&] {
          FillNormal<scalar_t>(place, mean, std, values);
        }) AT_DISPATCH_CASE(at::kHalf, [&] { FillNormal<scalar_t>(place, mean, std, values); }));
  });
}

// Calls make(u) for the f32 number u of each element.
template <typename Make>
Tensor& FillFromUniform(Tensor& self, const RandomPlace& place, const Make& make) {
  return Write(self, [&](Tensor& values) {
    const auto fill = [&](auto* data) {
      using Element = std::remove_pointer_t<decltype(data)>;
      Draw(place, static_cast<uint64_t>(values.numel()), [&](uint64_t i, uint32_t bits) {
        data[i] = static_cast<Element>(make(UniformFromBits(bits)));
      });
    };
    AT_DISPATCH_SWITCH(
        values.scalar_type(), "draw_hpu",
        AT_DISPATCH_CASE(at::kFloat, [&] { fill(values.mutable_data_ptr<scalar_t>()); })
            AT_DISPATCH_CASE(at::kBFloat16, [&] { fill(values.mutable_data_ptr<scalar_t>()); })
                AT_DISPATCH_CASE(at::kHalf, [&] { fill(values.mutable_data_ptr<scalar_t>()); })
                    AT_DISPATCH_CASE(at::kInt, [&] { fill(values.mutable_data_ptr<scalar_t>()); })
                        AT_DISPATCH_CASE(at::kLong,
                                         [&] { fill(values.mutable_data_ptr<scalar_t>()); }));
  });
}
bool IsHeldFloat(const Tensor& self) {
  return self.scalar_type() == at::kFloat || self.scalar_type() == at::kBFloat16 ||
         self.scalar_type() == at::kHalf;
}

Tensor& Exponential(Tensor& self, double rate, MaybeGenerator generator) {
  if (!IsHeldFloat(self)) {
    return at::native::call_fallback_fn<&RunOnCpu, ATEN_OP(exponential_)>::call(self, rate,
                                                                                generator);
  }
  TORCH_CHECK(rate > 0.0, "exponential_ expects lambda > 0.0, but found lambda=", rate);
  const auto scale = static_cast<float>(1 / rate);
  return FillFromUniform(self, TakeFor(self, generator), [&](float u) {
    return ExponentialFromUniform(HostArithmetic(), u) * scale;
  });
}

Tensor& Geometric(Tensor& self, double p, MaybeGenerator generator) {
  const bool held =
      IsHeldFloat(self) || self.scalar_type() == at::kInt || self.scalar_type() == at::kLong;
  if (!held) {
    return at::native::call_fallback_fn<&RunOnCpu, ATEN_OP(geometric_)>::call(self, p, generator);
  }
  TORCH_CHECK(0 < p && p < 1, "geometric_ expects p to be in (0, 1), but got p=", p);
  const auto scale = static_cast<float>(-1 / std::log1p(-p));
  return FillFromUniform(self, TakeFor(self, generator),
                         [&](float u) { return GeometricFromUniform(HostArithmetic(), u, scale); });
}

// Draws integers in [low, high), which f32 holds exactly. After rounding the product may equal the
// range itself.
template <typename T>
void FillIntegers(const RandomPlace& place, int64_t low, int64_t high, Tensor& values) {
  T* data = values.mutable_data_ptr<T>();
  const auto range = static_cast<float>(high - low);
  Draw(place, static_cast<uint64_t>(values.numel()), [&](uint64_t i, uint32_t bits) {
    const float number = std::min(std::floor(UniformFromBits(bits) * range), range - 1);
    data[i] = static_cast<T>(static_cast<int64_t>(number) + low);
  });
}

// Draws integers in [low, high) as the rest of 48 bits, of which a second draw gives the lower
// half.
template <typename T>
void FillWideIntegers(const RandomPlace& place, int64_t low, int64_t high, Tensor& values) {
  T* data = values.mutable_data_ptr<T>();
  const auto count = static_cast<uint64_t>(values.numel());
  const RandomPlace second{place.seed, place.offset + PhiloxBlocks(count)};
  std::vector<uint32_t> upper(count);
  Draw(place, count, [&](uint64_t i, uint32_t bits) { upper[i] = bits >> 8; });
  Draw(second, count, [&](uint64_t i, uint32_t bits) {
    const int64_t number = int64_t{upper[i]} << 24 | bits >> 8;
    data[i] = static_cast<T>(number % (high - low) + low);
  });
}

Tensor& RandomFrom(Tensor& self, int64_t from, std::optional<int64_t> to,
                   MaybeGenerator generator) {
  const bool held = to.has_value() && DrawsIntegers(FromScalarType(self.scalar_type()), from, *to);
  if (!held) {  // its kernel checks the range
    return at::native::call_fallback_fn<&RunOnCpu, ATEN_OP2(random_, from)>::call(self, from, to,
                                                                                  generator);
  }
  const bool exact = DrawsExactIntegers(from, *to);
  const auto count = static_cast<uint64_t>(self.numel());
  const RandomPlace place = TakeRandom(generator, PhiloxBlocks(count) * (exact ? 1 : 2));
  return Write(self, [&](Tensor& values) {
    AT_DISPATCH_ALL_TYPES_AND3(at::kBool, at::kBFloat16, at::kHalf, values.scalar_type(),
                               "random_hpu", [&] {
                                 if (exact) return FillIntegers<scalar_t>(place, from, *to, values);
                                 FillWideIntegers<scalar_t>(place, from, *to, values);
                               });
  });
}
Tensor& RandomTo(Tensor& self, int64_t to, MaybeGenerator generator) {
  return RandomFrom(self, 0, to, std::move(generator));
}

std::tuple<Tensor, Tensor> NativeDropout(const Tensor& input, double p, std::optional<bool> train) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  Tensor mask = at::empty_like(input, input.options().dtype(at::kBool));
  if (!train.value_or(true)) return {input.clone(), mask.fill_(true)};
  mask.bernoulli_(1 - p);
  return {input.mul(mask).mul_(p == 1 ? 0 : 1 / (1 - p)), mask};
}

}  // namespace

std::vector<OwnKernel> RandomKernels() {
  using c10::KernelFunction;
  return {
      {"aten::uniform_", KernelFunction::makeFromUnboxedRuntimeFunction(&Uniform)},
      {"aten::bernoulli_.float", KernelFunction::makeFromUnboxedRuntimeFunction(&Bernoulli)},
      {"aten::bernoulli_.Tensor", KernelFunction::makeFromUnboxedRuntimeFunction(&BernoulliTensor)},
      {"aten::exponential_", KernelFunction::makeFromUnboxedRuntimeFunction(&Exponential)},
      {"aten::geometric_", KernelFunction::makeFromUnboxedRuntimeFunction(&Geometric)},
      {"aten::native_dropout", KernelFunction::makeFromUnboxedRuntimeFunction(&NativeDropout)},
      {"aten::normal_", KernelFunction::makeFromUnboxedRuntimeFunction(&Normal)},
      {"aten::random_.from", KernelFunction::makeFromUnboxedRuntimeFunction(&RandomFrom)},
      {"aten::random_.to", KernelFunction::makeFromUnboxedRuntimeFunction(&RandomTo)},
  };
}

}  // namespace hpu::torch_backend
