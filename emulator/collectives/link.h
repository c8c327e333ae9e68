// The two directions between this rank and one other.
#pragma once

#include "emulator/collectives/message.h"

namespace hpu::emulator {

// A direction is used by one thread at a time; the two directions may be used by two threads. No
// function blocks. Slots arrive in the order of Send.
class Link {
 public:
  virtual ~Link() = default;

  // Gives out the next slot to fill. Returns false while the peer has not emptied enough slots.
  virtual bool TryReserve(Slot* slot) = 0;
  // Sends the slot that TryReserve gave out.
  virtual void Send() = 0;

  // Shows the oldest slot that has arrived. Returns false if there is none.
  virtual bool TryPeek(Slot* slot) = 0;
  // Gives the shown slot back to the peer.
  virtual void Release() = 0;

  // Returns whether nothing that was sent still needs this rank to move it.
  virtual bool AllSent() { return true; }
};

// Lets threads of this rank sleep until a link may have changed.
class Doorbell {
 public:
  virtual ~Doorbell() = default;
  // Read this before looking at the links.
  virtual uint32_t Look() const = 0;
  // Returns once the doorbell has rung since `seen`, or after some milliseconds. First it spins for
  // some microseconds.
  virtual void WaitForRing(uint32_t seen) = 0;
  // Wakes this rank's own sleepers.
  virtual void Ring() = 0;
};

}  // namespace hpu::emulator
