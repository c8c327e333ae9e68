// The unit in which ranks exchange data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "synapse/include/hccl.h"

namespace hpu::emulator {

enum class CollectiveKind : uint32_t {
  kAllReduce = 1,
  kReduce,
  kReduceScatter,
  kBroadcast,
  kAllGather,
  kAllToAll,
  kPointToPoint,
};
const char* NameOf(CollectiveKind kind);
// Returns "float32" and the like; "type 42" for a number that is not a type.
std::string NameOf(hcclDataType_t type);
std::string NameOf(hcclRedOp_t reduction);
// Returns 0 for a number that is not a type.
uint64_t ElementBytes(hcclDataType_t type);

// All ranks must agree on this in one call. `count` is in elements and `root` is -1 where the call
// has none.
struct CallDescription {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  hcclDataType_t type = hcclFloat32;
  hcclRedOp_t reduction = hcclOpNone;
  int32_t root = -1;
  uint64_t count = 0;

  bool operator==(const CallDescription&) const = default;
};
// Returns "all_reduce of 8 float32 (sum)".
std::string Describe(const CallDescription& call);

// The role of a slot's data in its call.
enum class Part : uint32_t {
  kContribution = 1,  // to a reduction that the receiver computes
  kData,              // goes to the receiver's buffer as it is
};

struct MessageHeader {
  CallDescription call;
  Part part = Part::kData;
  uint32_t bytes = 0;   // in this slot
  uint64_t offset = 0;  // of this slot in what the sender sends in this call
};
static_assert(sizeof(MessageHeader) <= 64);

inline constexpr uint64_t kSlotBytes = uint64_t{64} << 10;

struct Slot {
  MessageHeader* header = nullptr;
  uint8_t* data = nullptr;  // kSlotBytes long
};

}  // namespace hpu::emulator
