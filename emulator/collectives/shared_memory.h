// Links between ranks of one host. Every rank has a memory file with a ring of slots for each peer,
// which the peer maps and fills. The file has no name: peers open it through /proc, so nothing is
// left behind by a killed rank.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "emulator/collectives/link.h"

namespace hpu::emulator {

// Recognises the file of the right rank of the right communicator.
using Nonce = std::array<uint8_t, 16>;
absl::StatusOr<Nonce> RandomNonce();

// Tells a peer where a file is.
struct SharedMemoryAddress {
  uint64_t process = 0;
  int64_t descriptor = -1;
  Nonce nonce{};
};

class SharedMemory {
 public:
  // Makes this rank's file, with rings for `num_ranks` peers.
  static absl::StatusOr<std::unique_ptr<SharedMemory>> Create(int num_ranks);
  // Maps a peer's file. Returns NOT_FOUND where this process cannot open it or it is another one.
  static absl::StatusOr<std::unique_ptr<SharedMemory>> Open(const SharedMemoryAddress& address,
                                                            int num_ranks);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  SharedMemoryAddress address() const { return address_; }

  // The file has a doorbell, which rings when a peer has filled or emptied a slot. Look at it
  // before looking at the links.
  uint32_t Look() const;
  // Returns once the doorbell has rung since `seen`, or after some milliseconds. First it spins for
  // some microseconds.
  void WaitForRing(uint32_t seen);
  void Ring();

 private:
  friend class SharedMemoryLink;
  struct Header;
  struct RingState;
  SharedMemory(void* data, uint64_t bytes, int file);
  Header& header() const;
  // Returns the ring that the rank `writer` fills.
  RingState& ring(int writer) const;
  uint8_t* slot(int writer, uint64_t sequence) const;

  void* const data_;
  const uint64_t bytes_;
  const int file_;  // -1 in a peer
  SharedMemoryAddress address_;
};

class SharedMemoryLink : public Link {
 public:
  // `own` is this rank's file and outlives the link; `peers` is the peer's.
  SharedMemoryLink(SharedMemory* own, std::unique_ptr<SharedMemory> peers, int own_rank,
                   int peer_rank);

  bool TryReserve(Slot* slot) override;
  void Send() override;
  bool TryPeek(Slot* slot) override;
  void Release() override;

 private:
  SharedMemory* const own_;
  const std::unique_ptr<SharedMemory> peers_;
  const int own_rank_;
  const int peer_rank_;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
};

}  // namespace hpu::emulator
