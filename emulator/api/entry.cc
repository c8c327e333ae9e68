#include "emulator/api/entry.h"

namespace hpu::emulator {

synStatus BeginCall(bool needs_initialization) {
  LastError& last = ThreadLastError();
  last.has_message = false;
  const Library& library = Library::Get();
  if (library.forked()) {
    return FailWith(synUninitialized,
                    "this process was forked from one that uses the device; a forked process has "
                    "no device (start it anew, e.g. with the spawn method)");
  }
  if (needs_initialization && !library.initialized()) {
    return FailWith(synUninitialized, "synInitialize has not been called");
  }
  return synSuccess;
}

synStatus CheckNotStrict() { return Library::Get().strict() ? FailStrict() : synSuccess; }

synStatus FailStrict() {
  return FailWith(synUnsupported, "EMULATOR_STRICT is set, and a card has no such function");
}

}  // namespace hpu::emulator
