#include "backend/torch/eager/op_counts.h"

#include <mutex>

namespace hpu::torch_backend {
namespace {

struct AllCounts {
  std::mutex mutex;
  std::map<std::string, OpCounts, std::less<>> counts;
};

AllCounts& GetAllCounts() {
  static auto* all_counts = new AllCounts;
  return *all_counts;
}

}  // namespace

std::string_view ShortName(const c10::FunctionSchema& schema) {
  std::string_view name = schema.name();
  if (name.starts_with("aten::")) name.remove_prefix(6);
  return name;
}

OpCounts& CountsOf(std::string_view short_name) {
  AllCounts& all_counts = GetAllCounts();
  const std::lock_guard lock(all_counts.mutex);
  const auto found = all_counts.counts.find(short_name);
  return found != all_counts.counts.end()
             ? found->second
             : all_counts.counts.try_emplace(std::string(short_name)).first->second;
}

std::map<std::string, std::map<std::string, uint64_t>> AllOpCounts() {
  AllCounts& all_counts = GetAllCounts();
  const std::lock_guard lock(all_counts.mutex);
  std::map<std::string, std::map<std::string, uint64_t>> all;
  for (const auto& [name, counts] : all_counts.counts) {
    if (counts.recipes + counts.direct + counts.fallbacks == 0) continue;
    all[name] = {
        {"recipes", counts.recipes}, {"direct", counts.direct}, {"fallbacks", counts.fallbacks}};
  }
  return all;
}

std::map<std::string, uint64_t> FallbackCounts() {
  AllCounts& all_counts = GetAllCounts();
  const std::lock_guard lock(all_counts.mutex);
  std::map<std::string, uint64_t> all;
  for (const auto& [name, counts] : all_counts.counts) {
    if (counts.fallbacks > 0) all[name] = counts.fallbacks;
  }
  return all;
}

void ResetOpCounts() {
  AllCounts& all_counts = GetAllCounts();
  const std::lock_guard lock(all_counts.mutex);
  for (auto& [name, counts] : all_counts.counts) {
    counts.recipes = 0;
    counts.direct = 0;
    counts.fallbacks = 0;
  }
}

}  // namespace hpu::torch_backend
