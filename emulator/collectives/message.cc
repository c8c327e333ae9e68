#include "emulator/collectives/message.h"

namespace hpu::emulator {
namespace {

struct TypeRow {
  hcclDataType_t type;
  const char* name;
  uint64_t bytes;
};
constexpr TypeRow kTypes[] = {
    {hcclInt8, "int8", 1},         {hcclUint8, "uint8", 1},     {hcclInt32, "int32", 4},
    {hcclUint32, "uint32", 4},     {hcclInt64, "int64", 8},     {hcclUint64, "uint64", 8},
    {hcclFloat16, "float16", 2},   {hcclFloat32, "float32", 4}, {hcclFloat64, "float64", 8},
    {hcclBfloat16, "bfloat16", 2},
};

const TypeRow* FindType(hcclDataType_t type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return &row;
  }
  return nullptr;
}

}  // namespace

const char* NameOf(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "all_reduce";
    case CollectiveKind::kReduce:
      return "reduce";
    case CollectiveKind::kReduceScatter:
      return "reduce_scatter";
    case CollectiveKind::kBroadcast:
      return "broadcast";
    case CollectiveKind::kAllGather:
      return "all_gather";
    case CollectiveKind::kAllToAll:
      return "all_to_all";
    case CollectiveKind::kPointToPoint:
      return "send and receive";
  }
  return "an unknown call";
}

std::string NameOf(hcclDataType_t type) {
  const TypeRow* row = FindType(type);
  return row != nullptr ? row->name : "type " + std::to_string(static_cast<unsigned>(type));
}

std::string NameOf(hcclRedOp_t reduction) {
  switch (reduction) {
    case hcclSum:
      return "sum";
    case hcclProd:
      return "product";
    case hcclMin:
      return "min";
    case hcclMax:
      return "max";
    case hcclAvg:
      return "average";
    case hcclOpNone:
      return "none";
  }
  return "reduction " + std::to_string(static_cast<unsigned>(reduction));
}

uint64_t ElementBytes(hcclDataType_t type) {
  const TypeRow* row = FindType(type);
  return row != nullptr ? row->bytes : 0;
}

std::string Describe(const CallDescription& call) {
  std::string text = std::string(NameOf(call.kind)) + " of " + std::to_string(call.count) + " " +
                     NameOf(call.type);
  if (call.reduction != hcclOpNone) text += " (" + NameOf(call.reduction) + ")";
  if (call.root >= 0) text += ", root " + std::to_string(call.root);
  return text;
}

}  // namespace hpu::emulator
