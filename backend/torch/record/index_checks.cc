#include "backend/torch/record/index_checks.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "backend/runtime/bridge_log.h"
#include "backend/torch/eager/cpu_call.h"
#include "backend/torch/eager/host_access.h"
#include "backend/torch/eager/tensor_arguments.h"

namespace hpu::torch_backend {
namespace {

using c10::IValue;

struct IndexOp {
  const char* op;  // without namespace, overload and the underscore of in-place forms
  const char* table;
  const char* index;
  bool flat = false;
  bool wraps = false;
  const char* ignored = nullptr;
};
constexpr IndexOp kIndexOps[] = {
    {"_embedding_bag", "weight", "indices"},
    {"_embedding_bag_forward_only", "weight", "indices"},
    {"_index_put_impl", "self", "indices", false, true},
    {"_unsafe_index", "self", "indices", false, true},
    {"_unsafe_index_put", "self", "indices", false, true},
    {"embedding", "weight", "indices"},
    {"gather", "self", "index"},
    {"index", "self", "indices", false, true},
    {"index_add", "self", "index"},
    {"index_copy", "self", "index"},
    {"index_fill", "self", "index", false, true},
    {"index_put", "self", "indices", false, true},
    {"index_reduce", "self", "index"},
    {"index_select", "self", "index"},
    {"nll_loss2d_backward", "self", "target", false, false, "ignore_index"},
    {"nll_loss2d_forward", "self", "target", false, false, "ignore_index"},
    {"nll_loss_backward", "self", "target", false, false, "ignore_index"},
    {"nll_loss_forward", "self", "target", false, false, "ignore_index"},
    {"put", "self", "index", true, true},
    {"scatter", "self", "index"},
    {"scatter_add", "self", "index"},
    {"scatter_reduce", "self", "index"},
    {"take", "self", "index", true, true},
};

// Returns the text of FindOutside for one index tensor into a dimension (-1: all elements).
std::string FindIn(const at::Tensor& index, int64_t dim, int64_t size, bool wraps,
                   std::optional<int64_t> ignored = std::nullopt) {
  if (!at::isIntegralType(index.scalar_type(), /*includeBool=*/false)) return "";
  if (index.scalar_type() == at::kByte) return "";  // a mask
  HostAccess access;
  const at::Tensor host =
      (IsHpu(index) ? access.ToHost(index, /*written=*/false) : index).to(at::kLong).contiguous();
  const int64_t* values = host.const_data_ptr<int64_t>();
  const int64_t lowest = wraps ? -size : 0;
  for (int64_t i = 0; i < host.numel(); ++i) {
    if ((values[i] >= lowest && values[i] < size) || values[i] == ignored) continue;
    std::ostringstream text;
    text << "index " << values[i] << " at position " << i << " of its tensor is outside of ";
    if (dim >= 0) text << "dimension " << dim << ", which has " << size << " elements";
    if (dim < 0) text << "the tensor's " << size << " elements";
    return text.str();
  }
  return "";
}

}  // namespace

std::optional<IndexCheck> IndexCheck::Of(const c10::FunctionSchema& schema) {
  if (!schema.name().starts_with("aten::")) return std::nullopt;
  std::string name = schema.name().substr(6);
  if (name.ends_with('_')) name.pop_back();
  for (const IndexOp& row : kIndexOps) {
    if (name != row.op) continue;
    const auto table = schema.argumentIndexWithName(row.table);
    const auto index = schema.argumentIndexWithName(row.index);
    if (!table.has_value() || !index.has_value()) return std::nullopt;
    IndexCheck check;
    check.table_ = static_cast<size_t>(*table);
    check.index_ = static_cast<size_t>(*index);
    if (const auto dim = schema.argumentIndexWithName("dim"); dim.has_value()) {
      if (schema.arguments()[static_cast<size_t>(*dim)].type()->kind() != c10::TypeKind::IntType) {
        return std::nullopt;  // a dimension by its name
      }
      check.dim_ = static_cast<size_t>(*dim);
    }
    if (row.ignored != nullptr) {
      check.ignored_ = static_cast<size_t>(schema.argumentIndexWithName(row.ignored).value());
    }
    check.flat_ = row.flat;
    check.wraps_ = row.wraps;
    return check;
  }
  return std::nullopt;
}

std::string IndexCheck::FindOutside(c10::ArrayRef<IValue> arguments) const {
  const at::Tensor& table = arguments[table_].toTensor();
  const auto size_of = [&](int64_t dim) {
    if (flat_) return table.numel();
    return table.dim() == 0 ? int64_t{1} : table.size(dim);
  };
  if (ignored_.has_value()) {
    const int64_t dim = table.dim() > 1 ? 1 : 0;
    return FindIn(arguments[index_].toTensor(), dim, size_of(dim), wraps_,
                  arguments[*ignored_].toInt());
  }
  if (arguments[index_].isTensor()) {
    int64_t dim = dim_.has_value() ? arguments[*dim_].toInt() : 0;
    const int64_t rank = std::max<int64_t>(table.dim(), 1);
    if (dim < 0) dim += rank;
    if (dim < 0 || dim >= rank) return "";  // the operator says so itself
    return FindIn(arguments[index_].toTensor(), flat_ ? -1 : dim, size_of(dim), wraps_);
  }
  int64_t dim = 0;
  for (const IValue& item : arguments[index_].toListRef()) {
    if (dim >= table.dim()) return "";
    if (!item.isTensor() || !item.toTensor().defined()) {
      ++dim;
      continue;
    }
    const at::Tensor& index = item.toTensor();
    std::string found = FindIn(index, dim, size_of(dim), wraps_);
    if (!found.empty()) return found;
    const bool mask = index.scalar_type() == at::kBool || index.scalar_type() == at::kByte;
    dim += mask ? index.dim() : 1;
  }
  return "";
}

bool WantsIndexChecks() {
  static const bool wanted = [] {
    const char* value = std::getenv("PT_HPU_CHECK_INDICES");
    return value != nullptr && runtime::ParseBool(value);
  }();
  return wanted;
}

}  // namespace hpu::torch_backend
