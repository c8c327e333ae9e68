#include "backend/torch/eager/undeclared_writes.h"

#include <algorithm>

namespace hpu::torch_backend {
namespace {

constexpr UndeclaredWrites kAll[] = {
    {"aten::_batch_norm_impl_index", {"running_mean", "running_var"}, "training"},
    {"aten::batch_norm", {"running_mean", "running_var"}, "training"},
    {"aten::batch_norm_gather_stats", {"running_mean", "running_var"}, nullptr},
    {"aten::batch_norm_gather_stats_with_counts", {"running_mean", "running_var"}, nullptr},
    {"aten::batch_norm_update_stats", {"running_mean", "running_var"}, nullptr},
    {"aten::cudnn_batch_norm", {"running_mean", "running_var"}, "training"},
    {"aten::instance_norm", {"running_mean", "running_var"}, "use_input_stats"},
    {"aten::miopen_batch_norm", {"running_mean", "running_var"}, "training"},
    {"aten::native_batch_norm", {"running_mean", "running_var"}, "training"},
};

}  // namespace

std::span<const UndeclaredWrites> AllUndeclaredWrites() { return kAll; }

UndeclaredWrite UndeclaredWriteOf(const c10::FunctionSchema& schema, size_t argument) {
  const auto* found = std::find_if(std::begin(kAll), std::end(kAll),
                                   [&](const auto& row) { return schema.name() == row.op; });
  if (found == std::end(kAll)) return {};
  const std::string& name = schema.arguments()[argument].name();
  if (std::find(std::begin(found->arguments), std::end(found->arguments), name) ==
      std::end(found->arguments)) {
    return {};
  }
  if (found->condition == nullptr) return {true, std::nullopt};
  const auto condition = schema.argumentIndexWithName(found->condition);
  if (!condition.has_value()) return {true, std::nullopt};
  return {true, static_cast<size_t>(*condition)};
}

}  // namespace hpu::torch_backend
