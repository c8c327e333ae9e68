// The collectives' interface describes itself here: version, texts of results (reference 5.3).
#include "synapse/include/hccl.h"

namespace {
constexpr int kHcclVersion = 2604;
}  // namespace

hcclResult_t hcclGetVersion(int* version) {
  if (version == nullptr) return hcclInvalidArgument;
  *version = kHcclVersion;
  return hcclSuccess;
}

const char* hcclGetErrorString(hcclResult_t result) {
  switch (result) {
    case hcclUninitialized:
      return "not initialised";
    case hcclSuccess:
      return "success";
    case hcclNoDeviceFound:
      return "no device found";
    case hcclUnsupported:
      return "not supported";
    case hcclOutOfMemory:
      return "out of memory";
    case hcclUnhandledSynapseError:
      return "a synapse call failed";
    case hcclSystemError:
      return "a system call failed";
    case hcclInternalError:
      return "internal error";
    case hcclInvalidArgument:
      return "invalid argument";
    case hcclInvalidUsage:
      return "invalid usage";
    case hcclSocketError:
      return "socket error";
    case hcclLibfabricError:
      return "libfabric error";
    case hcclTryAgainError:
      return "try again";
    case hcclBusy:
      return "busy";
    case hcclStreamError:
      return "stream error";
    case hcclSynapseTerminated:
      return "synapse was terminated";
    case hcclPortDown:
      return "a port is down";
    case hcclNumResults:
      break;
  }
  return "unknown result";
}

int hcclLookupDMABuff(uint64_t /*address*/, uint64_t /*size*/, int* fd) {
  if (fd != nullptr) *fd = -1;
  return -1;  // the memory of the emulated device has no dma-buf
}
