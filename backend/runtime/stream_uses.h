// How the uses of a block of device memory by several streams are ordered.
//
// As the reference's bridge does, work that uses memory waits for the work of other streams that it
// depends on, whether or not the program has made its stream wait: a read waits for the last write,
// and a write also for the reads since then. (DeepSpeed's accelerator for hpu says
// `resolves_data_dependency`, and ZeRO's third stage relies on it.) Where the program has ordered
// its streams itself, nothing is added. The decision record is docs/decisions/0053.
#pragma once

#include <cstdint>
#include <vector>

namespace hpu::runtime {

class Stream;

enum class Access { kRead, kWrite };

struct StreamUse {
  Stream* stream = nullptr;
  uint64_t position = 0;  // Stream::NextPosition(); its work is queued before the QueueingCall ends
};

// The uses that later ones of other streams must wait for.
struct BlockUses {
  StreamUse written;             // the last write; at first, the allocation
  std::vector<StreamUse> reads;  // since then, the last one of each stream
};

}  // namespace hpu::runtime
