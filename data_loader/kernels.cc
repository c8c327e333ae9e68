#include "data_loader/kernels.h"

namespace hpu::data_loader {

// All functions that take or return a vector are inlined, so that no two sets share their ABI.
#pragma GCC diagnostic ignored "-Wpsabi"

#pragma GCC push_options
#pragma GCC target("sse4.2")
namespace v2 {
#include "data_loader/kernels.inc"
}  // namespace v2
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx2")
namespace v3 {
#include "data_loader/kernels.inc"
}  // namespace v3
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx2,avx512f,avx512bw,avx512vl,avx512dq")
namespace v4 {
#include "data_loader/kernels.inc"
}  // namespace v4
#pragma GCC pop_options

std::span<const Kernels> AvailableKernels() {
  static constexpr Kernels kAll[] = {
      {"v2", v2::Horizontal, v2::Vertical},
      {"v3", v3::Horizontal, v3::Vertical},
      {"v4", v4::Horizontal, v4::Vertical},
  };
  static const size_t available = [] {
    if (!__builtin_cpu_supports("avx2")) return 1;
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                   __builtin_cpu_supports("avx512dq")
               ? 3
               : 2;
  }();
  return {kAll, available};
}

}  // namespace hpu::data_loader
