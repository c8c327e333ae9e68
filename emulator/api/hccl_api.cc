// Collectives (reference 5.3). The emulated device is one rank: a communicator of one rank works,
// larger ones are refused with hcclUnsupported and a message.
#include "synapse/include/hccl_api.h"

#include <unistd.h>

#include <cstring>

#include "emulator/api/entry.h"
#include "emulator/base/clock.h"
#include "synapse/include/synapse_api.h"

using namespace hpu::emulator;  // NOLINT

namespace {

constexpr int kHcclVersion = 2604;

struct Communicator {};
using Communicators = HandleTable<Communicator, hcclComm_t>;

Communicators& AllCommunicators() {
  static auto* communicators = new Communicators;
  return *communicators;
}

hcclResult_t ResultOf(synStatus status) {
  switch (status) {
    case synSuccess:
      return hcclSuccess;
    case synInvalidArgument:
      return hcclInvalidArgument;
    case synUninitialized:
      return hcclUninitialized;
    case synUnsupported:
      return hcclUnsupported;
    case synOutOfHostMemory:
      return hcclOutOfMemory;
    default:
      return hcclUnhandledSynapseError;
  }
}

template <typename Body>
hcclResult_t CommunicatorCall(hcclComm_t handle, Body&& body) {
  return ResultOf(Call([&]() -> synStatus {
    if (AllCommunicators().Find(handle) == nullptr) {
      return Fail(synInvalidArgument, "this is not a communicator");
    }
    return body();
  }));
}

uint64_t ElementBytes(hcclDataType_t type) {
  switch (type) {
    case hcclInt8:
    case hcclUint8:
      return 1;
    case hcclFloat16:
    case hcclBfloat16:
      return 2;
    case hcclInt32:
    case hcclUint32:
    case hcclFloat32:
      return 4;
    case hcclInt64:
    case hcclUint64:
    case hcclFloat64:
      return 8;
  }
  return 0;
}

// With one rank every collective is a copy.
hcclResult_t Copy(const void* send, void* receive, size_t count, hcclDataType_t type,
                  hcclComm_t comm, synStreamHandle stream) {
  const hcclResult_t known = CommunicatorCall(comm, [&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(ElementBytes(type) != 0 && count <= ~uint64_t{0} / 8);
    return synSuccess;
  });
  if (known != hcclSuccess || send == receive) return known;
  return ResultOf(synMemCopyAsync(stream, reinterpret_cast<uint64_t>(send),
                                  count * ElementBytes(type), reinterpret_cast<uint64_t>(receive),
                                  DRAM_TO_DRAM));
}

hcclResult_t NoPeer(hcclComm_t comm) {
  return CommunicatorCall(comm, [] {
    return Fail(synUnsupported, "the emulated device has no peers to exchange data with");
  });
}

hcclResult_t Create(hcclComm_t* comm, int num_ranks, int rank) {
  return ResultOf(Call([&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(comm != nullptr && num_ranks > 0 && rank >= 0 && rank < num_ranks);
    *comm = nullptr;
    if (num_ranks > 1) {
      return Fail(synUnsupported, "the emulated device forms communicators of one rank only, not ",
                  num_ranks);
    }
    *comm = AllCommunicators().Insert(std::make_shared<Communicator>());
    return synSuccess;
  }));
}

hcclResult_t Remove(hcclComm_t comm) {
  return CommunicatorCall(comm, [&] {
    AllCommunicators().Remove(comm);
    return synSuccess;
  });
}

}  // namespace

hcclResult_t hcclGetVersion(int* version) {
  if (version == nullptr) return hcclInvalidArgument;
  *version = kHcclVersion;
  return hcclSuccess;
}

hcclResult_t hcclGetUniqueId(hcclUniqueId* unique_id) {
  return ResultOf(Call([&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(unique_id != nullptr);
    std::memset(unique_id, 0, sizeof(*unique_id));
    const uint64_t parts[] = {static_cast<uint64_t>(getpid()), NowNanoseconds()};
    std::memcpy(unique_id->internal, parts, sizeof(parts));
    unique_id->length = sizeof(parts);
    return synSuccess;
  }));
}

hcclResult_t hcclCommInitRank(hcclComm_t* comm, int num_ranks, hcclUniqueId /*id*/, int rank) {
  return Create(comm, num_ranks, rank);
}

hcclResult_t hcclCommInitAll(hcclComm_t* /*comm*/, int /*num_devices*/, const int* /*devices*/) {
  return hcclInvalidUsage;  // a process has only one device
}

hcclResult_t hcclCommDestroy(hcclComm_t comm) { return Remove(comm); }
hcclResult_t hcclCommAbort(hcclComm_t comm) { return Remove(comm); }

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

hcclResult_t hcclCommGetAsyncError(hcclComm_t comm, hcclResult_t* error) {
  return CommunicatorCall(comm, [&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(error != nullptr);
    *error = hcclSuccess;
    return synSuccess;
  });
}

hcclResult_t hcclCommCount(hcclComm_t comm, int* count) {
  return CommunicatorCall(comm, [&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(count != nullptr);
    *count = 1;
    return synSuccess;
  });
}

hcclResult_t hcclCommUserRank(hcclComm_t comm, int* rank) {
  return CommunicatorCall(comm, [&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(rank != nullptr);
    *rank = 0;
    return synSuccess;
  });
}

int hcclLookupDMABuff(uint64_t /*address*/, uint64_t /*size*/, int* fd) {
  if (fd != nullptr) *fd = -1;
  return -1;  // the memory of the emulated device has no dma-buf
}

hcclResult_t hcclReduce(const void* send, void* receive, size_t count, hcclDataType_t type,
                        hcclRedOp_t /*op*/, int root, hcclComm_t comm, synStreamHandle stream) {
  return root == 0 ? Copy(send, receive, count, type, comm, stream) : hcclInvalidArgument;
}

hcclResult_t hcclBroadcast(const void* send, void* receive, size_t count, hcclDataType_t type,
                           int root, hcclComm_t comm, synStreamHandle stream) {
  return root == 0 ? Copy(send, receive, count, type, comm, stream) : hcclInvalidArgument;
}

hcclResult_t hcclAllReduce(const void* send, void* receive, size_t count, hcclDataType_t type,
                           hcclRedOp_t /*op*/, hcclComm_t comm, synStreamHandle stream) {
  return Copy(send, receive, count, type, comm, stream);
}

hcclResult_t hcclReduceScatter(const void* send, void* receive, size_t receive_count,
                               hcclDataType_t type, hcclRedOp_t /*op*/, hcclComm_t comm,
                               synStreamHandle stream) {
  return Copy(send, receive, receive_count, type, comm, stream);
}

hcclResult_t hcclAllGather(const void* send, void* receive, size_t send_count, hcclDataType_t type,
                           hcclComm_t comm, synStreamHandle stream) {
  return Copy(send, receive, send_count, type, comm, stream);
}

hcclResult_t hcclAlltoAll(const void* send, void* receive, size_t count, hcclDataType_t type,
                          hcclComm_t comm, synStreamHandle stream) {
  return Copy(send, receive, count, type, comm, stream);
}

hcclResult_t hcclSend(const void* /*send*/, size_t /*count*/, hcclDataType_t /*type*/, int /*peer*/,
                      hcclComm_t comm, synStreamHandle /*stream*/) {
  return NoPeer(comm);
}

hcclResult_t hcclRecv(void* /*receive*/, size_t /*count*/, hcclDataType_t /*type*/, int /*peer*/,
                      hcclComm_t comm, synStreamHandle /*stream*/) {
  return NoPeer(comm);
}

hcclResult_t hcclGroupStart() { return hcclSuccess; }
hcclResult_t hcclGroupEnd() { return hcclSuccess; }
