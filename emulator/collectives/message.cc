#include "emulator/collectives/message.h"

namespace hpu::emulator {

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
  switch (type) {
    case hcclInt8:
      return "int8";
    case hcclUint8:
      return "uint8";
    case hcclInt32:
      return "int32";
    case hcclUint32:
      return "uint32";
    case hcclInt64:
      return "int64";
    case hcclUint64:
      return "uint64";
    case hcclFloat16:
      return "float16";
    case hcclFloat32:
      return "float32";
    case hcclFloat64:
      return "float64";
    case hcclBfloat16:
      return "bfloat16";
  }
  return "type " + std::to_string(static_cast<unsigned>(type));
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
  switch (type) {
    case hcclInt8:
    case hcclUint8:
      return 1;
    case hcclFloat16:
    case hcclBfloat16:
      return 2;
    case hcclInt32:
    case hcclUint32:
    case hcclFloat32:
      return 4;
    case hcclInt64:
    case hcclUint64:
    case hcclFloat64:
      return 8;
  }
  return 0;
}

std::string Describe(const CallDescription& call) {
  std::string text = std::string(NameOf(call.kind)) + " of " + std::to_string(call.count) + " " +
                     NameOf(call.type);
  if (call.reduction != hcclOpNone) text += " (" + NameOf(call.reduction) + ")";
  if (call.root >= 0) text += ", root " + std::to_string(call.root);
  return text;
}

}  // namespace hpu::emulator
