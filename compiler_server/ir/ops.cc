#include "compiler_server/ir/ops.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "base/status.h"

namespace hpu::ir {
namespace {

struct AtenRow {
  std::string_view target;
  OpKind op;
};

#include "compiler_server/ir/ops_table.inc"

static_assert(std::size(kTraits) == kNumOps);
static_assert(std::size(kAttrNames) == kNumAttrs);

constexpr bool ByName(const OpTraits& a, const OpTraits& b) { return a.name < b.name; }
static_assert(std::is_sorted(std::begin(kTraits), std::end(kTraits), ByName));
static_assert(std::is_sorted(std::begin(kAttrNames), std::end(kAttrNames)));

}  // namespace

const OpTraits& Traits(OpKind op) { return kTraits[static_cast<size_t>(op)]; }

std::optional<OpKind> OpFromName(std::string_view name) {
  const auto* row = std::lower_bound(
      std::begin(kTraits), std::end(kTraits), name,
      [](const OpTraits& traits, std::string_view wanted) { return traits.name < wanted; });
  if (row == std::end(kTraits) || row->name != name) return std::nullopt;
  return static_cast<OpKind>(row - std::begin(kTraits));
}

std::string_view AttrName(AttrKey key) { return kAttrNames[static_cast<size_t>(key)]; }

std::optional<AttrKey> AttrFromName(std::string_view name) {
  const auto* row = std::lower_bound(std::begin(kAttrNames), std::end(kAttrNames), name);
  if (row == std::end(kAttrNames) || *row != name) return std::nullopt;
  return static_cast<AttrKey>(row - std::begin(kAttrNames));
}

std::optional<OpKind> ElementwiseFromAten(std::string_view target) {
  const auto* row = std::lower_bound(
      std::begin(kAtenRows), std::end(kAtenRows), target,
      [](const AtenRow& aten, std::string_view wanted) { return aten.target < wanted; });
  if (row == std::end(kAtenRows) || row->target != target) return std::nullopt;
  return row->op;
}

bool Contains(DTypeSet set, DType dtype) {
  switch (set) {
    case DTypeSet::kAny:
      return dtype != DType::kInvalid;
    case DTypeSet::kBool:
      return dtype == DType::kBool;
    case DTypeSet::kInteger:
      return dtype == DType::kBool || IsInteger(dtype);
    case DTypeSet::kFloat:
      return IsFloat(dtype);
    case DTypeSet::kNumber:
      return IsFloat(dtype) || IsInteger(dtype);
  }
  return false;
}

bool DeviceHolds(DType dtype) { return dtype != DType::kInvalid && MovedType(dtype) == dtype; }

}  // namespace hpu::ir
