// Collectives (reference 5.3).
#include <algorithm>
#include <chrono>
#include <mutex>
#include <vector>

#include "emulator/api/entry.h"
#include "emulator/collectives/collective_work.h"
#include "emulator/collectives/communicator.h"
#include "emulator/collectives/rendezvous.h"
#include "synapse/include/hccl.h"
#include "synapse/include/synapse_emulator.h"

using namespace hpu::emulator;  // NOLINT

namespace {

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
    case synTimeout:
    case synFailHccl:
      return hcclSystemError;
    case synResourceBadUsage:
      return hcclInvalidUsage;
    default:
      return hcclUnhandledSynapseError;
  }
}

synStatus HcclStatus(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return Fail(synInvalidArgument, status.message());
    case absl::StatusCode::kDeadlineExceeded:
      return Fail(synTimeout, status.message());
    case absl::StatusCode::kUnimplemented:
      return Fail(synUnsupported, status.message());
    case absl::StatusCode::kResourceExhausted:
      return Fail(synOutOfHostMemory, status.message());
    default:
      return Fail(synFailHccl, status.message());
  }
}

// `body` is a synStatus(const std::shared_ptr<Communicator>&).
template <typename Body>
hcclResult_t CommunicatorCall(hcclComm_t handle, Body&& body) {
  return ResultOf(Call([&]() -> synStatus {
    const std::shared_ptr<Communicator> communicator = AllCommunicators().Find(handle);
    if (communicator == nullptr) return Fail(synInvalidArgument, "this is not a communicator");
    return body(communicator);
  }));
}

// Sends and receives of the calling thread between hcclGroupStart and hcclGroupEnd.
struct GroupedCall {
  hcclComm_t communicator = nullptr;
  synStreamHandle stream = nullptr;
  CollectiveCall call;
};
struct Group {
  int depth = 0;
  std::vector<GroupedCall> calls;
};
Group& ThreadGroup() {
  thread_local Group group;
  return group;
}

synStatus CheckBuffer(Device& device, const char* what, uint64_t address, uint64_t bytes) {
  if (bytes == 0 || device.memory().Contains(address, bytes)) return synSuccess;
  return Fail(synInvalidArgument, "the ", what, " buffer of ", bytes, " bytes at ", address,
              " does not lie in allocated device memory");
}

// The order in which calls take their places must be that in which they are queued.
std::mutex queue_mutex;

synStatus Queue(Device& device, const std::shared_ptr<Communicator>& communicator,
                synStreamHandle stream_handle, std::vector<CollectiveCall> calls) {
  const std::shared_ptr<Stream> stream = device.streams().Find(stream_handle);
  if (stream == nullptr) return Fail(synInvalidArgument, "this is not a stream of the device");
  for (const CollectiveCall& call : calls) {
    const BufferBytes bytes = BytesOf(call, communicator->size(), communicator->rank());
    SYN_RETURN_IF_FAILED(CheckBuffer(device, "send", call.send, bytes.send));
    SYN_RETURN_IF_FAILED(CheckBuffer(device, "receive", call.receive, bytes.receive));
  }
  if (communicator->failed()) return Fail(synFailHccl, communicator->reason());
  Profiler& profiler = Library::Get().profiler();
  const WorkOrigin origin = profiler.Origin(StreamNumber(stream_handle));
  std::lock_guard lock(queue_mutex);
  stream->Enqueue(std::make_unique<CollectiveWork>(communicator, std::move(calls),
                                                   &device.executor().packs(), &profiler, origin));
  return synSuccess;
}

synStatus CheckCall(const Communicator& communicator, const CallDescription& call) {
  const std::string wrong = WhyWrong(call, communicator.size());
  return wrong.empty() ? synSuccess : Fail(synInvalidArgument, NameOf(call.kind), ": ", wrong);
}

// Queues one collective.
hcclResult_t QueueCollective(const CallDescription& description, const void* send, void* receive,
                             hcclComm_t comm, synStreamHandle stream) {
  return CommunicatorCall(comm, [&](const std::shared_ptr<Communicator>& communicator) {
    return DeviceCall([&](Device& device) -> synStatus {
      SYN_RETURN_IF_FAILED(CheckCall(*communicator, description));
      if (description.kind == CollectiveKind::kAllToAll && description.count != 0 &&
          send == receive && communicator->size() > 1) {
        return Fail(synInvalidArgument, "all_to_all: the buffers must not be the same");
      }
      const CollectiveCall call{description, reinterpret_cast<uint64_t>(send),
                                reinterpret_cast<uint64_t>(receive)};
      return Queue(device, communicator, stream, {call});
    });
  });
}

hcclResult_t QueuePointToPoint(const void* send, void* receive, size_t count, hcclDataType_t type,
                               int peer, hcclComm_t comm, synStreamHandle stream) {
  return CommunicatorCall(comm, [&](const std::shared_ptr<Communicator>& communicator) {
    return DeviceCall([&](Device& device) -> synStatus {
      const CallDescription description{.kind = CollectiveKind::kPointToPoint,
                                        .type = type,
                                        .reduction = hcclOpNone,
                                        .root = -1,
                                        .count = count};
      SYN_RETURN_IF_FAILED(CheckCall(*communicator, description));
      if (peer < 0 || peer >= communicator->size()) {
        return Fail(synInvalidArgument, "the peer ", peer, " is none of ", communicator->size(),
                    " ranks");
      }
      CollectiveCall call{description, reinterpret_cast<uint64_t>(send),
                          reinterpret_cast<uint64_t>(receive), peer};
      Group& group = ThreadGroup();
      if (group.depth > 0) {
        group.calls.push_back({comm, stream, call});
        return synSuccess;
      }
      if (peer == communicator->rank()) {
        return Fail(synResourceBadUsage,
                    "a rank sends to itself and receives from itself within hcclGroupStart and "
                    "hcclGroupEnd only");
      }
      if (count == 0) return synSuccess;
      return Queue(device, communicator, stream, {call});
    });
  });
}

// Sends of a rank to itself become copies: the first send goes to the first receive, and so on.
synStatus QueueOwn(const Communicator& communicator, synStreamHandle stream,
                   std::vector<CollectiveCall>* calls) {
  std::vector<CollectiveCall> sends, receives, others;
  for (const CollectiveCall& call : *calls) {
    auto& list = call.peer != communicator.rank() ? others : call.send != 0 ? sends : receives;
    if (call.description.count != 0) list.push_back(call);
  }
  if (sends.size() != receives.size()) {
    return Fail(synResourceBadUsage, "rank ", communicator.rank(), " sends ", sends.size(),
                " buffers to itself and receives ", receives.size());
  }
  for (size_t i = 0; i < sends.size(); ++i) {
    if (sends[i].description != receives[i].description) {
      return Fail(synInvalidArgument, "rank ", communicator.rank(), " sends itself ",
                  Describe(sends[i].description), " and receives ",
                  Describe(receives[i].description));
    }
    SYN_RETURN_IF_FAILED(synMemCopyAsync(
        stream, sends[i].send, sends[i].description.count * ElementBytes(sends[i].description.type),
        receives[i].receive, DRAM_TO_DRAM));
  }
  *calls = std::move(others);
  return synSuccess;
}

// Queues what the thread's group has collected, all of one communicator and stream as one work.
synStatus QueueGroup(Device& device, std::vector<GroupedCall> grouped) {
  while (!grouped.empty()) {
    const GroupedCall first = grouped.front();
    std::vector<CollectiveCall> calls;
    std::erase_if(grouped, [&](const GroupedCall& each) {
      if (each.communicator != first.communicator || each.stream != first.stream) return false;
      calls.push_back(each.call);
      return true;
    });
    const std::shared_ptr<Communicator> communicator = AllCommunicators().Find(first.communicator);
    if (communicator == nullptr) return Fail(synInvalidArgument, "this is not a communicator");
    SYN_RETURN_IF_FAILED(QueueOwn(*communicator, first.stream, &calls));
    if (calls.empty()) continue;
    SYN_RETURN_IF_FAILED(Queue(device, communicator, first.stream, std::move(calls)));
  }
  return synSuccess;
}

std::string Setting(const char* key) { return Library::Get().configuration().Text(key); }

// `join_time` is at most what the user allows.
synStatus Create(hcclComm_t* comm, int num_ranks, const hcclUniqueId& id, int rank,
                 std::chrono::milliseconds join_time) {
  SYN_REQUIRE_ARGUMENT(comm != nullptr);
  *comm = nullptr;
  if (num_ranks < 1 || rank < 0 || rank >= num_ranks) {
    return Fail(synInvalidArgument, "there is no rank ", rank, " among ", num_ranks, " ranks");
  }
  Configuration& configuration = Library::Get().configuration();
  const CommunicatorOptions options{
      .fixed_address = Setting("HCCL_COMM_ID"),
      .interfaces = Setting("HCCL_SOCKET_IFNAME"),
      .any_provider = configuration.Flag("HCCL_OVER_OFI"),
      .shares_memory = configuration.Flag("EMULATOR_HCCL_SHARE_MEMORY"),
      .join_time = std::min<std::chrono::milliseconds>(
          join_time, std::chrono::seconds(configuration.Number("EMULATOR_HCCL_JOIN_SECONDS"))),
      .silence_seconds = configuration.Number("EMULATOR_HCCL_SILENCE_SECONDS")};
  absl::StatusOr<std::shared_ptr<Communicator>> made =
      Communicator::Create(id, num_ranks, rank, options);
  if (!made.ok()) return HcclStatus(made.status());
  *comm = AllCommunicators().Insert(std::move(made).value());
  return synSuccess;
}

hcclResult_t Abort(hcclComm_t comm, const std::string& reason) {
  return CommunicatorCall(comm, [&](const std::shared_ptr<Communicator>& communicator) {
    communicator->Fail("rank " + std::to_string(communicator->rank()) +
                       " has aborted the communicator" + (reason.empty() ? "" : ": ") + reason);
    AllCommunicators().Remove(comm);
    return synSuccess;
  });
}

CallDescription Collective(CollectiveKind kind, hcclDataType_t type, size_t count,
                           hcclRedOp_t reduction = hcclOpNone, int root = -1) {
  return {.kind = kind, .type = type, .reduction = reduction, .root = root, .count = count};
}

}  // namespace

hcclResult_t hcclGetUniqueId(hcclUniqueId* unique_id) {
  return ResultOf(Call([&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(unique_id != nullptr);
    const absl::StatusOr<hcclUniqueId> made =
        MakeUniqueId(Setting("HCCL_SOCKET_IFNAME"), Setting("HCCL_COMM_ID"));
    if (!made.ok()) return HcclStatus(made.status());
    *unique_id = *made;
    return synSuccess;
  }));
}

hcclResult_t hcclCommInitRank(hcclComm_t* comm, int num_ranks, hcclUniqueId id, int rank) {
  return ResultOf(
      Call([&] { return Create(comm, num_ranks, id, rank, std::chrono::milliseconds::max()); }));
}

hcclResult_t synEmulatorCommInitRank(hcclComm_t* comm, int num_ranks, hcclUniqueId id, int rank,
                                     uint64_t milliseconds) {
  return ResultOf(Call([&]() -> synStatus {
    SYN_RETURN_IF_FAILED(CheckNotStrict());
    return Create(comm, num_ranks, id, rank, std::chrono::milliseconds(milliseconds));
  }));
}

hcclResult_t hcclCommInitAll(hcclComm_t* /*comm*/, int /*num_devices*/, const int* /*devices*/) {
  return hcclInvalidUsage;  // a process has only one device
}

hcclResult_t hcclCommDestroy(hcclComm_t comm) {
  return CommunicatorCall(comm, [&](const std::shared_ptr<Communicator>&) {
    AllCommunicators().Remove(comm);  // queued work keeps it until it has run
    return synSuccess;
  });
}

hcclResult_t hcclCommAbort(hcclComm_t comm) { return Abort(comm, ""); }

hcclResult_t synEmulatorCommAbort(hcclComm_t comm, const char* reason) {
  const hcclResult_t allowed = ResultOf(Call([] { return CheckNotStrict(); }));
  if (allowed != hcclSuccess) return allowed;
  return Abort(comm, reason != nullptr ? reason : "");
}

hcclResult_t hcclCommGetAsyncError(hcclComm_t comm, hcclResult_t* error) {
  return CommunicatorCall(comm, [&](const std::shared_ptr<Communicator>& communicator) {
    SYN_REQUIRE_ARGUMENT(error != nullptr);
    *error =
        communicator->failed() ? ResultOf(Fail(synFailHccl, communicator->reason())) : hcclSuccess;
    return synSuccess;
  });
}

hcclResult_t hcclCommCount(hcclComm_t comm, int* count) {
  return CommunicatorCall(comm, [&](const std::shared_ptr<Communicator>& communicator) {
    SYN_REQUIRE_ARGUMENT(count != nullptr);
    *count = communicator->size();
    return synSuccess;
  });
}

hcclResult_t hcclCommUserRank(hcclComm_t comm, int* rank) {
  return CommunicatorCall(comm, [&](const std::shared_ptr<Communicator>& communicator) {
    SYN_REQUIRE_ARGUMENT(rank != nullptr);
    *rank = communicator->rank();
    return synSuccess;
  });
}

hcclResult_t hcclReduce(const void* send, void* receive, size_t count, hcclDataType_t type,
                        hcclRedOp_t op, int root, hcclComm_t comm, synStreamHandle stream) {
  if (root < 0) return hcclInvalidArgument;
  return QueueCollective(Collective(CollectiveKind::kReduce, type, count, op, root), send, receive,
                         comm, stream);
}

hcclResult_t hcclBroadcast(const void* send, void* receive, size_t count, hcclDataType_t type,
                           int root, hcclComm_t comm, synStreamHandle stream) {
  if (root < 0) return hcclInvalidArgument;
  return QueueCollective(Collective(CollectiveKind::kBroadcast, type, count, hcclOpNone, root),
                         send, receive, comm, stream);
}

hcclResult_t hcclAllReduce(const void* send, void* receive, size_t count, hcclDataType_t type,
                           hcclRedOp_t op, hcclComm_t comm, synStreamHandle stream) {
  return QueueCollective(Collective(CollectiveKind::kAllReduce, type, count, op), send, receive,
                         comm, stream);
}

hcclResult_t hcclReduceScatter(const void* send, void* receive, size_t receive_count,
                               hcclDataType_t type, hcclRedOp_t op, hcclComm_t comm,
                               synStreamHandle stream) {
  return QueueCollective(Collective(CollectiveKind::kReduceScatter, type, receive_count, op), send,
                         receive, comm, stream);
}

hcclResult_t hcclAllGather(const void* send, void* receive, size_t send_count, hcclDataType_t type,
                           hcclComm_t comm, synStreamHandle stream) {
  return QueueCollective(Collective(CollectiveKind::kAllGather, type, send_count), send, receive,
                         comm, stream);
}

hcclResult_t hcclAlltoAll(const void* send, void* receive, size_t count, hcclDataType_t type,
                          hcclComm_t comm, synStreamHandle stream) {
  return QueueCollective(Collective(CollectiveKind::kAllToAll, type, count), send, receive, comm,
                         stream);
}

hcclResult_t hcclSend(const void* send, size_t count, hcclDataType_t type, int peer,
                      hcclComm_t comm, synStreamHandle stream) {
  return QueuePointToPoint(send, nullptr, count, type, peer, comm, stream);
}

hcclResult_t hcclRecv(void* receive, size_t count, hcclDataType_t type, int peer, hcclComm_t comm,
                      synStreamHandle stream) {
  return QueuePointToPoint(nullptr, receive, count, type, peer, comm, stream);
}

hcclResult_t hcclGroupStart() {
  ++ThreadGroup().depth;
  return hcclSuccess;
}

hcclResult_t hcclGroupEnd() {
  return ResultOf(DeviceCall([](Device& device) -> synStatus {
    Group& group = ThreadGroup();
    if (group.depth == 0) {
      return Fail(synResourceBadUsage, "hcclGroupEnd without hcclGroupStart");
    }
    if (--group.depth > 0) return synSuccess;
    return QueueGroup(device, std::exchange(group.calls, {}));
  }));
}
