// How the ranks of a communicator find each other.
//
// Rank 0 listens; every other rank connects and says who it is; rank 0 answers once all are there.
// The listener is closed then, and the connections become a star with rank 0 in its middle. A
// connection without the communicator's nonce is closed without an answer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "emulator/collectives/shared_memory.h"
#include "emulator/collectives/socket.h"
#include "synapse/include/hccl.h"

namespace hpu::emulator {

// Makes an id and listens for it in this process, until rank 0 joins with it. `interfaces` is as in
// InterfaceAddress. If `fixed_address` (HCCL_COMM_ID) is not empty, the id only names that address.
absl::StatusOr<hcclUniqueId> MakeUniqueId(const std::string& interfaces,
                                          const std::string& fixed_address);

struct Star {
  // On rank 0: by rank, the own one closed. On other ranks: the connection to rank 0 alone.
  std::vector<Socket> connections;
};

// Blocks until all ranks have joined. An empty id (all zeros) stands for `fixed_address`.
// INVALID_ARGUMENT: the ids, the number of ranks or the rank do not fit together.
// DEADLINE_EXCEEDED names the ranks that did not come.
absl::StatusOr<Star> Join(const hcclUniqueId& id, const std::string& fixed_address, int num_ranks,
                          int rank, Deadline deadline);

// Gives every rank what all ranks brought, by rank. All ranks call it in the same order.
absl::StatusOr<std::vector<std::string>> Exchange(const Star& star, int num_ranks, int rank,
                                                  const std::string& own, Deadline deadline);

}  // namespace hpu::emulator
