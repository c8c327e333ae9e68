#include "emulator/collectives/reduction.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

namespace hpu::emulator {
namespace {

// Sources are added block by block into an array that no pointer can alias, so that the compiler
// vectorises the loops although the destination may be a source.
constexpr uint64_t kBlock = 1024;

// Functions that only the function with clones calls must be compiled once per clone.
#define HPU_INLINE inline __attribute__((always_inline))

struct Half {
  _Float16 value;
};
struct Bfloat {
  uint16_t bits;
};

HPU_INLINE float Widen(Half value) { return static_cast<float>(value.value); }
HPU_INLINE float Widen(Bfloat value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}
template <typename T>
HPU_INLINE T Widen(T value) {
  return value;
}

HPU_INLINE void Narrow(float value, Half* narrow) { narrow->value = static_cast<_Float16>(value); }
HPU_INLINE void Narrow(float value, Bfloat* narrow) {
  const auto wide = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (wide + 0x7fff + ((wide >> 16) & 1)) >> 16;
  const uint32_t nan = (wide >> 16) | 0x40;
  narrow->bits = static_cast<uint16_t>((wide & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}
template <typename T>
HPU_INLINE void Narrow(T value, T* narrow) {
  *narrow = value;
}

// Signed sums wrap around as unsigned ones.
template <typename T>
HPU_INLINE T WrapAdd(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
  } else {
    return a + b;
  }
}
template <typename T>
HPU_INLINE T WrapMultiply(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return a * b;
  }
}

struct Add {
  template <typename T>
  HPU_INLINE static T Of(T a, T b) {
    return WrapAdd(a, b);
  }
};
struct Multiply {
  template <typename T>
  HPU_INLINE static T Of(T a, T b) {
    return WrapMultiply(a, b);
  }
};
// The negated comparisons keep `a` where it is a NaN, and the second operand decides where that is.
struct Least {
  template <typename T>
  HPU_INLINE static T Of(T a, T b) {
    return !(a <= b) && a == a ? b : a;
  }
};
struct Greatest {
  template <typename T>
  HPU_INLINE static T Of(T a, T b) {
    return !(a >= b) && a == a ? b : a;
  }
};

template <typename T, typename Op>
HPU_INLINE void ReduceAs(const uint8_t* const* sources, int num_sources, uint64_t count,
                         bool average, uint8_t* destination) {
  using Wide = decltype(Widen(T{}));
  for (uint64_t begin = 0; begin < count; begin += kBlock) {
    const uint64_t size = std::min(kBlock, count - begin);
    Wide sums[kBlock];
    const T* first = reinterpret_cast<const T*>(sources[0]) + begin;
    for (uint64_t i = 0; i < size; ++i) sums[i] = Widen(first[i]);
    for (int source = 1; source < num_sources; ++source) {
      const T* next = reinterpret_cast<const T*>(sources[source]) + begin;
      for (uint64_t i = 0; i < size; ++i) sums[i] = Op::Of(sums[i], Widen(next[i]));
    }
    if (average) {
      const auto divisor = static_cast<Wide>(num_sources);
      for (uint64_t i = 0; i < size; ++i) sums[i] = static_cast<Wide>(sums[i] / divisor);
    }
    T* out = reinterpret_cast<T*>(destination) + begin;
    for (uint64_t i = 0; i < size; ++i) Narrow(sums[i], &out[i]);
  }
}

template <typename T>
HPU_INLINE void ReduceTyped(const uint8_t* const* sources, int num_sources, uint64_t count,
                            hcclRedOp_t reduction, uint8_t* destination) {
  switch (reduction) {
    case hcclSum:
    case hcclAvg:
      return ReduceAs<T, Add>(sources, num_sources, count, reduction == hcclAvg, destination);
    case hcclProd:
      return ReduceAs<T, Multiply>(sources, num_sources, count, false, destination);
    case hcclMin:
      return ReduceAs<T, Least>(sources, num_sources, count, false, destination);
    case hcclMax:
      return ReduceAs<T, Greatest>(sources, num_sources, count, false, destination);
    case hcclOpNone:
      return;
  }
}

}  // namespace

bool IsReduction(hcclRedOp_t reduction) {
  switch (reduction) {
    case hcclSum:
    case hcclProd:
    case hcclMin:
    case hcclMax:
    case hcclAvg:
      return true;
    case hcclOpNone:
      return false;
  }
  return false;
}

// Sanitisers are not prepared for functions that the linker chooses.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
__attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#endif
void Reduce(const uint8_t* const* sources, int num_sources, uint64_t count, hcclDataType_t type,
            hcclRedOp_t reduction, uint8_t* destination) {
  switch (type) {
    case hcclInt8:
      return ReduceTyped<int8_t>(sources, num_sources, count, reduction, destination);
    case hcclUint8:
      return ReduceTyped<uint8_t>(sources, num_sources, count, reduction, destination);
    case hcclInt32:
      return ReduceTyped<int32_t>(sources, num_sources, count, reduction, destination);
    case hcclUint32:
      return ReduceTyped<uint32_t>(sources, num_sources, count, reduction, destination);
    case hcclInt64:
      return ReduceTyped<int64_t>(sources, num_sources, count, reduction, destination);
    case hcclUint64:
      return ReduceTyped<uint64_t>(sources, num_sources, count, reduction, destination);
    case hcclFloat16:
      return ReduceTyped<Half>(sources, num_sources, count, reduction, destination);
    case hcclFloat32:
      return ReduceTyped<float>(sources, num_sources, count, reduction, destination);
    case hcclFloat64:
      return ReduceTyped<double>(sources, num_sources, count, reduction, destination);
    case hcclBfloat16:
      return ReduceTyped<Bfloat>(sources, num_sources, count, reduction, destination);
  }
}

}  // namespace hpu::emulator
