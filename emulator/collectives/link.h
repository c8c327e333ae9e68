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

}  // namespace hpu::emulator
