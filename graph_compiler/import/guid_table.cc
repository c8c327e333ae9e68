#include "graph_compiler/import/guid_table.h"

#include <algorithm>
#include <map>

#include "graph_compiler/import/importer.h"

namespace hpu::graph_compiler {
namespace {

constexpr std::string_view kTypeSuffixes[] = {
#define HPU_DTYPE(symbol, name, bytes, kind, host, torch_type, device, suffix, ...) suffix,
#include "base/dtypes.inc"
#undef HPU_DTYPE
};

const std::map<std::string_view, const GuidRow*>& Rows() {
  static const auto* rows = [] {
    auto* map = new std::map<std::string_view, const GuidRow*>();
    for (const auto& area :
         {ElementwiseRows, ActivationRows, ArithmeticRows, SourceRows, MovementRows, SliceRows,
          AssemblyRows, IndexingRows, ScatterRows, ReductionRows, SoftmaxRows, NormalisationRows,
          MaxPoolRows, AveragePoolRows, ResizeRows, ContractionRows, AttentionRows, QuantizedRows,
          GroupedRows}) {
      for (const GuidRow& row : area()) (*map)[row.name] = &row;
    }
    return map;
  }();
  return *rows;
}

std::string BaseName(const std::string& guid) {
  if (guid.rfind("cast_", 0) == 0 && guid.find("_to_") != std::string::npos) return "cast";
  const size_t underscore = guid.rfind('_');
  if (underscore == std::string::npos) return guid;
  const std::string_view suffix = std::string_view(guid).substr(underscore + 1);
  const bool is_type =
      !suffix.empty() && std::find(std::begin(kTypeSuffixes), std::end(kTypeSuffixes), suffix) !=
                             std::end(kTypeSuffixes);
  return is_type ? guid.substr(0, underscore) : guid;
}

}  // namespace

const GuidRow* FindGuid(const std::string& guid, std::string* base) {
  for (const std::string& name : {guid, BaseName(guid)}) {
    const auto row = Rows().find(name);
    if (row == Rows().end()) continue;
    if (base != nullptr) *base = name;
    return row->second;
  }
  return nullptr;
}

const GuidRow* FindRow(const NodeDesc& node, std::string* base) {
  if (node.custom_version == 0) return FindGuid(node.guid, base);
  if (base != nullptr) *base = node.guid;
  return &CustomKernelRow();
}

std::string SizesText(const Sizes& sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i > 0) text += ",";
    text += std::to_string(sizes[i]);
  }
  return text + "]";
}

absl::Status NeedInputs(const ShapeContext& context, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (!context.HasInput(i)) return InvalidArgument("input ", i, " is missing");
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> ReadAxis(const NodeDesc& node, size_t rank) {
  uint32_t axis = 0;
  if (!ReadParams(node, &axis)) return InvalidArgument("axis params are missing");
  if (axis >= rank) {
    return InvalidArgument("axis ", static_cast<int32_t>(axis), " is outside rank ", rank);
  }
  return axis;
}

absl::StatusOr<Sizes> BroadcastSizes(const Sizes& a, const Sizes& b) {
  Sizes result(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < result.size(); ++i) {
    const uint64_t x = i < a.size() ? a[i] : 1;
    const uint64_t y = i < b.size() ? b[i] : 1;
    if (x != y && x != 1 && y != 1) {
      return InvalidArgument("sizes ", SizesText(a), " and ", SizesText(b),
                             " do not broadcast (dimension ", i, " counted from the fastest)");
    }
    result[i] = x == 1 ? y : x;
  }
  return result;
}

absl::StatusOr<std::vector<Sizes>> InferSameAsFirst(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 1));
  return std::vector<Sizes>(context.node.outputs.size(), context.Input(0));
}

absl::StatusOr<std::vector<Sizes>> InferBroadcast(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 1));
  Sizes sizes = context.Input(0);
  for (size_t i = 1; i < context.node.inputs.size(); ++i) {
    if (!context.HasInput(i)) continue;
    ASSIGN_OR_RETURN(sizes, BroadcastSizes(sizes, context.Input(i)));
  }
  return std::vector<Sizes>(context.node.outputs.size(), sizes);
}

absl::StatusOr<std::vector<Sizes>> InferDeclared(const ShapeContext& context) {
  return std::vector<Sizes>(context.node.outputs.size());
}

}  // namespace hpu::graph_compiler
