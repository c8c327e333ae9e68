// A plan says what one rank sends, receives and computes in one call.
#pragma once

#include <string>
#include <vector>

#include "emulator/collectives/message.h"

namespace hpu::emulator {

// One call of the HCCL interface. The addresses are the device's.
struct CollectiveCall {
  CallDescription description;
  uint64_t send = 0;
  uint64_t receive = 0;
  int peer = -1;  // of a send or a receive, which has the other address 0
};

// Returns what is wrong with a call's numbers among `size` ranks; empty if nothing is.
std::string WhyWrong(const CallDescription& call, int size);

// Returns the sizes of the call's buffers on a rank.
struct BufferBytes {
  uint64_t send = 0;
  uint64_t receive = 0;
};
BufferBytes BytesOf(const CollectiveCall& call, int size, int rank);

// The host's pointers to the two buffers of a call; null where the call has none.
struct Buffers {
  const uint8_t* send = nullptr;
  uint8_t* receive = nullptr;
};

struct Incoming {
  CallDescription call;
  int peer = 0;
  uint8_t* data = nullptr;
  uint64_t bytes = 0;
  uint64_t received = 0;
};

struct Outgoing {
  CallDescription call;
  int peer = 0;
  Part part = Part::kData;
  const uint8_t* data = nullptr;
  uint64_t bytes = 0;
  const uint64_t* available = nullptr;  // how much of it exists already; null = all
  uint64_t sent = 0;
};

// The part of a reduction that this rank computes.
struct Reduction {
  CallDescription call;
  const uint8_t* own = nullptr;  // this rank's contribution
  uint8_t* destination = nullptr;
  uint64_t bytes = 0;
  uint64_t done = 0;
  bool waits_for_sends = false;  // the destination is what this rank still sends
};

// Members point to each other, so a plan is neither copied nor moved.
struct Plan {
  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  std::vector<Outgoing> sends;     // those to one peer leave in this order as far as they exist
  std::vector<Incoming> receives;  // those from one peer arrive in this order
  Reduction reduction;             // with 0 bytes this rank computes nothing
  std::vector<uint8_t> scratch;    // a result that only another rank keeps
};

// Adds a call to the plan, and copies what stays on this rank. Calls that share a plan are sends
// and receives.
void AddToPlan(const CollectiveCall& call, const Buffers& buffers, int size, int rank, Plan* plan);

}  // namespace hpu::emulator
