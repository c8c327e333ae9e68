#include "backend/torch/record/call_table.h"

#include <atomic>
#include <string_view>
#include <utility>

namespace hpu::torch_backend {
namespace {

// A compilation takes about 8 ms, and a CPU's kernel about 1 ns for an element and 1 us for a call
// (benchmarks/eager.py). Only the relations count.
constexpr int64_t kElementsOfACompilation = 8'000'000;
constexpr int64_t kElementsOfACall = 1'000;

struct WorkRow {
  std::string_view op;
  int64_t per_element;
};
// Operators whose CPU kernels order elements take many times as long for each of them.
constexpr WorkRow kWorkRows[] = {
    {"aten::_unique2", 64},  {"aten::kthvalue", 16},     {"aten::median", 16}, {"aten::mode", 32},
    {"aten::nanmedian", 16}, {"aten::searchsorted", 32}, {"aten::sort", 64},   {"aten::topk", 16},
};

int64_t WorkPerElement(std::string_view op) {
  for (const WorkRow& row : kWorkRows) {
    if (row.op == op) return row.per_element;
  }
  return 1;
}

std::atomic<uint64_t> present_epoch{0};

}  // namespace

void ForgetCallPrograms() { ++present_epoch; }

void CallTable::FollowEpoch() {
  const uint64_t present = present_epoch.load(std::memory_order_relaxed);
  if (epoch_ == present) return;
  epoch_ = present;
  entries_.clear();
}

CallTable::CallTable(std::string_view op) : work_per_element_(WorkPerElement(op)) {}

int64_t CallTable::WorkOf(const CallSignature& call) const {
  int64_t elements = 0;
  for (const at::Tensor* tensor : call.tensors()) elements += tensor->numel();
  return kElementsOfACall + work_per_element_ * elements;
}

CallTable::Found CallTable::Find(const CallSignature& call) {
  const std::lock_guard lock(mutex_);
  FollowEpoch();
  auto found = entries_.find(call);
  if (found == entries_.end()) {
    if (entries_.size() >= kMostSignatures) entries_.clear();
    found = entries_.try_emplace(WordsOf(call)).first;
  }
  Entry& entry = found->second;
  if (entry.made != nullptr) {
    const bool stale =
        !entry.made->lasting && std::chrono::steady_clock::now() - entry.made_at > kRetryAfter;
    return {stale ? nullptr : entry.made, stale};
  }
  entry.work += WorkOf(call);
  return {nullptr, entry.work >= kElementsOfACompilation};
}

void CallTable::Keep(const CallSignature& call, std::shared_ptr<const CallProgram> made) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[WordsOf(call)];
  entry.made = std::move(made);
  entry.made_at = std::chrono::steady_clock::now();
}

}  // namespace hpu::torch_backend
