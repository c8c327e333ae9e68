// Collectives of the Synapse library (NCCL-like), resolved from the same shared object. Buffers are
// device addresses cast to pointers; calls are queued on the stream.
#pragma once

#include "synapse_api_types.h"

#define HCCL_UNIQUE_ID_MAX_BYTES 1024

typedef void* hcclComm_t;

typedef struct hcclUniqueId {
  uint8_t internal[HCCL_UNIQUE_ID_MAX_BYTES];
  size_t length;
} hcclUniqueId;
SYN_ASSERT_SIZE(hcclUniqueId, 1032);

typedef enum hcclResult_t SYN_ENUM_TYPE {
  hcclUninitialized = -1,  // since 1.21
  hcclSuccess = 0,
  hcclNoDeviceFound = 1,
  hcclUnsupported = 2,
  hcclOutOfMemory = 3,
  hcclUnhandledSynapseError = 4,
  hcclSystemError = 5,
  hcclInternalError = 6,
  hcclInvalidArgument = 7,
  hcclInvalidUsage = 8,
  hcclSocketError = 9,
  hcclLibfabricError = 10,
  hcclTryAgainError = 11,
  hcclBusy = 12,
  hcclNumResults = 13,
  hcclStreamError = 14,
  hcclSynapseTerminated = 15,
  hcclPortDown = 16,  // since 1.21
} hcclResult_t;

typedef enum hcclRedOp_t SYN_ENUM_TYPE {
  hcclSum = 0,
  hcclProd = 1,
  hcclMin = 2,
  hcclMax = 3,
  hcclAvg = 4,
  hcclOpNone = 5,
} hcclRedOp_t;

typedef enum hcclDataType_t SYN_ENUM_TYPE {
  hcclInt8 = 0,
  hcclChar = hcclInt8,
  hcclUint8 = 1,
  hcclInt32 = 2,
  hcclInt = hcclInt32,
  hcclUint32 = 3,
  hcclInt64 = 4,
  hcclUint64 = 5,
  hcclFloat16 = 6,
  hcclHalf = hcclFloat16,
  hcclFloat32 = 7,
  hcclFloat = hcclFloat32,
  hcclFloat64 = 8,
  hcclDouble = hcclFloat64,
  hcclBfloat16 = 9,
} hcclDataType_t;

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// major * 1000 + minor * 100 + patch.
hcclResult_t hcclGetVersion(int* version);
// Rank 0 makes it; the others get it by some other channel.
hcclResult_t hcclGetUniqueId(hcclUniqueId* unique_id);
// Blocks until all ranks have called it.
hcclResult_t hcclCommInitRank(hcclComm_t* comm, int num_ranks, hcclUniqueId id, int rank);
hcclResult_t hcclCommInitAll(hcclComm_t* comm, int num_devices, const int* devices);
hcclResult_t hcclCommDestroy(hcclComm_t comm);
hcclResult_t hcclCommAbort(hcclComm_t comm);
const char* hcclGetErrorString(hcclResult_t result);
hcclResult_t hcclCommGetAsyncError(hcclComm_t comm, hcclResult_t* error);
hcclResult_t hcclCommCount(hcclComm_t comm, int* count);
hcclResult_t hcclCommUserRank(hcclComm_t comm, int* rank);
// dma-buf descriptor of a device range; 0 on success.
int hcclLookupDMABuff(uint64_t address, uint64_t size, int* fd);
hcclResult_t hcclReduce(const void* send, void* receive, size_t count, hcclDataType_t type,
                        hcclRedOp_t op, int root, hcclComm_t comm, synStreamHandle stream);
hcclResult_t hcclBroadcast(const void* send, void* receive, size_t count, hcclDataType_t type,
                           int root, hcclComm_t comm, synStreamHandle stream);
hcclResult_t hcclAllReduce(const void* send, void* receive, size_t count, hcclDataType_t type,
                           hcclRedOp_t op, hcclComm_t comm, synStreamHandle stream);
// receive_count: elements per rank.
hcclResult_t hcclReduceScatter(const void* send, void* receive, size_t receive_count,
                               hcclDataType_t type, hcclRedOp_t op, hcclComm_t comm,
                               synStreamHandle stream);
hcclResult_t hcclAllGather(const void* send, void* receive, size_t send_count, hcclDataType_t type,
                           hcclComm_t comm, synStreamHandle stream);
// count: all elements of the send buffer, divided evenly among the ranks.
hcclResult_t hcclAlltoAll(const void* send, void* receive, size_t count, hcclDataType_t type,
                          hcclComm_t comm, synStreamHandle stream);
hcclResult_t hcclSend(const void* send, size_t count, hcclDataType_t type, int peer,
                      hcclComm_t comm, synStreamHandle stream);
hcclResult_t hcclRecv(void* receive, size_t count, hcclDataType_t type, int peer, hcclComm_t comm,
                      synStreamHandle stream);
// Sends and receives between the two are issued together.
hcclResult_t hcclGroupStart(void);
hcclResult_t hcclGroupEnd(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}  // extern "C"
#endif
