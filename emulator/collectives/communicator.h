// A group of ranks that exchange data, as one of them sees it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "emulator/collectives/fabric.h"
#include "emulator/collectives/link.h"
#include "emulator/collectives/membership.h"
#include "emulator/collectives/shared_memory.h"

namespace hpu::emulator {

struct CommunicatorOptions {
  std::string fixed_address;  // HCCL_COMM_ID
  std::string interfaces;     // HCCL_SOCKET_IFNAME
  bool any_provider = false;  // HCCL_OVER_OFI: libfabric chooses; else it is TCP between hosts
  bool shares_memory = true;  // with ranks of this host
  std::chrono::milliseconds join_time{300000};  // the longest wait for all ranks
  uint64_t silence_seconds = 30;                // after which a silent rank is gone
};

// The directions of links that a call uses: by peer, whether it sends and whether it receives. One
// call has each of them at a time, in the order in which calls were made.
struct Lanes {
  std::vector<bool> sends;
  std::vector<bool> receives;
};

// Thread-safe.
class Communicator {
 public:
  // Blocks until all ranks have joined.
  static absl::StatusOr<std::shared_ptr<Communicator>> Create(const hcclUniqueId& id, int num_ranks,
                                                              int rank,
                                                              const CommunicatorOptions& options);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int size() const { return size_; }
  int rank() const { return rank_; }
  // `peer` is another rank.
  Link& link(int peer) { return *links_[static_cast<size_t>(peer)]; }
  // Returns a number to pass to WaitForChange; look at the links in between.
  uint32_t Look();
  // Returns when a link may have changed since `seen`, or after some milliseconds.
  void WaitForChange(uint32_t seen);

  // Takes a place in the queues of the lanes. Every ticket is passed to Begin and End.
  struct Ticket {
    std::vector<uint64_t> sends;  // by peer; 0 = the lane is not used
    std::vector<uint64_t> receives;
  };
  Ticket Queue(const Lanes& lanes);
  // Blocks until the calls before this one have ended in all its lanes.
  void Begin(const Ticket& ticket);
  void End(const Ticket& ticket);

  // The first failure stays. Fail also tells the other ranks; after it no call succeeds.
  void Fail(const std::string& reason);
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  std::string reason() const;
  // Returns why nothing more can come from the rank; empty while it takes part.
  std::string WhyGone(int peer) const;
  // Returns which connection has failed, and why; empty while none has.
  std::string NetworkFailure() const;
  bool uses_network() const { return fabric_ != nullptr; }
  // Returns whether this rank would hear of the end of another one.
  bool is_watched() const { return size_ == 1 || membership_->is_watched(); }
  uint64_t silence_seconds() const { return silence_seconds_; }

 private:
  Communicator(int size, int rank, uint64_t silence_seconds);
  absl::Status Connect(const Star& star, const CommunicatorOptions& options, Deadline deadline);
  absl::Status ConnectOverNetwork(const Star& star, const CommunicatorOptions& options,
                                  Deadline deadline);
  bool IsTurn(const Ticket& ticket) const;
  void SetFailed(const std::string& reason);

  const int size_;
  const int rank_;
  const uint64_t silence_seconds_;
  std::unique_ptr<SharedMemory> memory_;  // outlives the links
  std::vector<std::unique_ptr<Link>> links_;
  std::unique_ptr<FabricEndpoint> fabric_;  // null where all ranks share memory; goes before links

  mutable std::mutex queue_mutex_;
  std::condition_variable turn_;
  Ticket last_;     // the last ticket that was given out in each lane
  Ticket running_;  // the ticket whose turn it is

  mutable std::mutex state_mutex_;
  std::atomic<bool> failed_{false};
  std::string reason_;
  std::vector<std::string> gone_;           // by rank
  std::unique_ptr<Membership> membership_;  // last: its thread uses the members above
};

}  // namespace hpu::emulator
