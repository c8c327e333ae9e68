// Counts of the calls of each operator, by the way that they took (record/op_kernel.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {

struct OpCounts {
  std::atomic<uint64_t> recipes{0};
  std::atomic<uint64_t> direct{0};
  std::atomic<uint64_t> fallbacks{0};
};

// Returns "tril" for aten::tril; other namespaces are kept.
std::string_view ShortName(const c10::FunctionSchema& schema);

// Returns the counts of all overloads with this short name. They live as long as the process.
OpCounts& CountsOf(std::string_view short_name);

// Maps the short names with at least one call to their recipes, direct calls and fallbacks.
std::map<std::string, std::map<std::string, uint64_t>> AllOpCounts();
// Maps the short names with at least one fallback to their number.
std::map<std::string, uint64_t> FallbackCounts();
// Sets all counts to 0.
void ResetOpCounts();

}  // namespace hpu::torch_backend
