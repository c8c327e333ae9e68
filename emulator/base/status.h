// Failures inside the emulator: a synStatus to return, with the text that synGetLastErrorMessage
// will return to the calling thread.
#pragma once

#include <sstream>
#include <string>

#include "base/status.h"
#include "synapse/include/synapse_api_types.h"

namespace hpu::emulator {

// The result of the calling thread's last call.
struct LastError {
  synStatus status = synSuccess;
  bool has_message = false;
  std::string message;
};
LastError& ThreadLastError();

// Stores `text` as the thread's last message and returns `status`.
synStatus FailWith(synStatus status, std::string text);

template <typename... Parts>
[[nodiscard]] synStatus Fail(synStatus status, const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return FailWith(status, text.str());
}

// Returns one line per status, which is never freed, or null for a number that is not a status.
const char* StatusText(synStatus status);

#define SYN_RETURN_IF_FAILED(expr)                     \
  do {                                                 \
    const synStatus syn_status_ = (expr);              \
    if (syn_status_ != synSuccess) return syn_status_; \
  } while (false)

}  // namespace hpu::emulator
