// The version of proto/compile_service.proto, which both sides send in Hello and compare.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace hpu::wire {

inline constexpr uint32_t kProtocolVersion = 4;

// Returns FAILED_PRECONDITION on the side that finds that the other one, `peer`, speaks another
// version.
inline absl::Status OtherProtocol(const std::string& peer, uint32_t version,
                                  const std::string& self) {
  return Error(absl::StatusCode::kFailedPrecondition, "the ", peer, " speaks version ", version,
               " of the compile protocol, the ", self, " version ", kProtocolVersion,
               ": they are of two installations; stop the daemon (hpu-compile stop), or give each "
               "installation a cache folder of its own (HPU_CACHE_DIR)");
}

}  // namespace hpu::wire
