#include "emulator/collectives/collective_work.h"

#include <utility>

#include "emulator/base/clock.h"
#include "emulator/base/status.h"
#include "emulator/collectives/run_plan.h"

namespace hpu::emulator {
namespace {

Lanes LanesOf(const std::vector<CollectiveCall>& calls, int size) {
  const bool is_collective = calls.front().description.kind != CollectiveKind::kPointToPoint;
  const auto peers = static_cast<size_t>(size);
  Lanes lanes{std::vector<bool>(peers, is_collective), std::vector<bool>(peers, is_collective)};
  if (is_collective) return lanes;
  for (const CollectiveCall& call : calls) {
    (call.send != 0 ? lanes.sends : lanes.receives)[static_cast<size_t>(call.peer)] = true;
  }
  return lanes;
}

}  // namespace

CollectiveWork::CollectiveWork(std::shared_ptr<Communicator> communicator,
                               std::vector<CollectiveCall> calls, PackCache* packs,
                               Profiler* profiler, const WorkOrigin& origin)
    : communicator_(std::move(communicator)),
      calls_(std::move(calls)),
      packs_(packs),
      profiler_(profiler),
      origin_(origin),
      ticket_(communicator_->Queue(LanesOf(calls_, communicator_->size()))) {}

std::string CollectiveWork::Name() const {
  const std::string more =
      calls_.size() == 1 ? "" : " and " + std::to_string(calls_.size() - 1) + " more";
  return Describe(calls_.front().description) + more;
}

std::vector<MemoryUse> CollectiveWork::Uses() const {
  std::vector<MemoryUse> uses;
  for (const CollectiveCall& call : calls_) {
    const BufferBytes bytes = BytesOf(call, communicator_->size(), communicator_->rank());
    if (bytes.send != 0) uses.push_back({call.send, bytes.send, false});
    if (bytes.receive != 0) uses.push_back({call.receive, bytes.receive, true});
  }
  return uses;
}

synStatus CollectiveWork::Run() {
  communicator_->Begin(ticket_);
  const uint64_t start = NowNanoseconds();
  uint64_t moved = 0;
  absl::Status status;
  {
    MemoryAccess access(packs_);
    Plan plan;
    plan.receives.reserve(calls_.size());
    for (const CollectiveCall& call : calls_) {
      const BufferBytes bytes = BytesOf(call, communicator_->size(), communicator_->rank());
      Buffers buffers;
      if (call.send != 0) {
        buffers.send = static_cast<const uint8_t*>(access.Use(call.send, bytes.send));
      }
      if (call.receive != 0) {
        buffers.receive = static_cast<uint8_t*>(access.Use(call.receive, bytes.receive));
      }
      AddToPlan(call, buffers, communicator_->size(), communicator_->rank(), &plan);
      moved += bytes.send;
    }
    status = RunPlan(*communicator_, plan);
    for (const MemoryUse& use : Uses()) {
      if (use.writes) packs_->Drop(use.address, use.bytes);
    }
  }
  communicator_->End(ticket_);
  if (profiler_->device_tracing()) {
    profiler_->AddCopy(NameOf(calls_.front().description.kind), origin_, {start, NowNanoseconds()},
                       moved);
  }
  return status.ok() ? synSuccess : Fail(synFailHccl, status.message());
}

}  // namespace hpu::emulator
