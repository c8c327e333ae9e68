#include "emulator/collectives/run_plan.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <vector>

#include "emulator/collectives/reduction.h"

namespace hpu::emulator {
namespace {

// Sends of one step to one peer: few, so that the peer's slots are emptied in between.
constexpr int kSlotsPerStep = 2;
// How long a rank looks for what another one sent before it went. A process that hardly gets to run
// looks so often at least.
constexpr std::chrono::milliseconds kDrainTime{500};
constexpr int kDrainLooks = 100;

class Runner {
 public:
  Runner(Communicator& communicator, Plan& plan)
      : communicator_(communicator),
        plan_(plan),
        heads_(static_cast<size_t>(communicator.size())) {}

  absl::Status Run() {
    auto last_progress = std::chrono::steady_clock::now();
    while (!Done()) {
      if (communicator_.failed()) return Failure(communicator_.reason());
      const uint32_t seen = communicator_.Look();
      // The slots that a rank sent before it went can still be used, so this looks once more.
      std::string why;
      bool progress = Step();
      if (!progress && wrong_.empty()) {
        why = WhyStuck(last_progress);
        progress = !why.empty() && Step();
      }
      if (progress) {
        last_progress = std::chrono::steady_clock::now();
        drain_.reset();
        continue;
      }
      if (!wrong_.empty()) return Fail(wrong_);
      if (!why.empty() && !MayStillArrive()) return Fail(why);
      communicator_.WaitForChange(seen);
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status Failure(const std::string& reason) {
    return Error(absl::StatusCode::kUnavailable, reason);
  }
  absl::Status Fail(const std::string& reason) {
    communicator_.Fail(reason);
    return Failure(communicator_.reason());
  }

  // The news that a rank is gone overtakes what it has sent over the network.
  bool MayStillArrive() {
    if (!communicator_.uses_network()) return false;
    const auto now = std::chrono::steady_clock::now();
    if (!drain_.has_value()) drain_ = Drain{now + kDrainTime, 0};
    return ++drain_->looks < kDrainLooks || now < drain_->end;
  }

  bool Done() const {
    return plan_.reduction.done == plan_.reduction.bytes &&
           std::all_of(plan_.sends.begin(), plan_.sends.end(),
                       [](const Outgoing& each) { return each.sent == each.bytes; }) &&
           std::all_of(plan_.receives.begin(), plan_.receives.end(),
                       [](const Incoming& each) { return each.received == each.bytes; }) &&
           std::all_of(plan_.sends.begin(), plan_.sends.end(), [&](const Outgoing& each) {
             return communicator_.link(each.peer).AllSent();
           });
  }

  // Returns whether anything was done. `wrong_` receives what cannot go on.
  bool Step() {
    bool progress = false;
    for (int peer = 0; peer < communicator_.size(); ++peer) {
      if (peer == communicator_.rank()) continue;
      for (int i = 0; i < kSlotsPerStep && SendTo(peer); ++i) progress = true;
      while (wrong_.empty() && ReceiveFrom(peer)) progress = true;
    }
    if (wrong_.empty() && ReduceHeads()) progress = true;
    return progress;
  }

  bool SendTo(int peer) {
    for (Outgoing& each : plan_.sends) {
      if (each.peer != peer) continue;
      const uint64_t available = each.available != nullptr ? *each.available : each.bytes;
      if (each.sent == available) continue;
      Slot slot;
      if (!communicator_.link(peer).TryReserve(&slot)) return false;
      const uint64_t bytes = std::min(kSlotBytes, available - each.sent);
      *slot.header = {each.call, each.part, static_cast<uint32_t>(bytes), each.sent};
      std::memcpy(slot.data, each.data + each.sent, bytes);
      communicator_.link(peer).Send();
      each.sent += bytes;
      return true;
    }
    return false;
  }

  Incoming* NextFrom(int peer) {
    for (Incoming& each : plan_.receives) {
      if (each.peer == peer && each.received != each.bytes) return &each;
    }
    return nullptr;
  }

  // Takes in a slot of data; a contribution stays until all others of its place are there.
  bool ReceiveFrom(int peer) {
    const auto index = static_cast<size_t>(peer);
    if (heads_[index].has_value()) return false;
    Incoming* next = NextFrom(peer);
    const bool contributes = plan_.reduction.done != plan_.reduction.bytes;
    if (next == nullptr && !contributes) return false;
    Slot slot;
    if (!communicator_.link(peer).TryPeek(&slot)) return false;
    // The peer could change its memory meanwhile, so what is checked is a copy.
    const MessageHeader header = *slot.header;
    if (contributes && header.part == Part::kContribution) {
      const Reduction& reduction = plan_.reduction;
      if (!Agrees(peer, header, reduction.call, Part::kContribution, reduction.done,
                  reduction.bytes)) {
        return false;
      }
      heads_[index] = Head{slot.data, header.bytes};
      return true;
    }
    const CallDescription& own = next != nullptr ? next->call : plan_.reduction.call;
    if (!Agrees(peer, header, own, Part::kData, next != nullptr ? next->received : 0,
                next != nullptr ? next->bytes : 0)) {
      return false;
    }
    std::memcpy(next->data + next->received, slot.data, header.bytes);
    next->received += header.bytes;
    communicator_.link(peer).Release();
    return true;
  }

  bool Agrees(int peer, const MessageHeader& header, const CallDescription& own, Part part,
              uint64_t offset, uint64_t bytes) {
    if (!(header.call == own)) {
      wrong_ = "rank " + std::to_string(peer) + " calls " + Describe(header.call) + " where rank " +
               std::to_string(communicator_.rank()) + " calls " + Describe(own) +
               ": all ranks must make the same calls in the same order";
    } else if (header.part != part || header.offset != offset || header.bytes == 0 ||
               header.bytes > kSlotBytes || header.bytes > bytes - offset) {
      wrong_ = OtherBytes(peer, own);
    }
    return wrong_.empty();
  }

  std::string OtherBytes(int peer, const CallDescription& call) const {
    return "rank " + std::to_string(peer) + " sends other bytes of its " + Describe(call) +
           " than rank " + std::to_string(communicator_.rank()) + " expects";
  }

  bool ReduceHeads() {
    Reduction& reduction = plan_.reduction;
    if (reduction.done == reduction.bytes) return false;
    const int size = communicator_.size();
    uint64_t bytes = std::min(kSlotBytes, reduction.bytes - reduction.done);
    std::vector<const uint8_t*> sources(heads_.size());
    for (int peer = 0; peer < size; ++peer) {
      const auto index = static_cast<size_t>(peer);
      if (peer == communicator_.rank()) {
        sources[index] = reduction.own + reduction.done;
        continue;
      }
      if (!heads_[index].has_value()) return false;
      if (heads_[index]->bytes != bytes) {
        wrong_ = OtherBytes(peer, reduction.call);
        return false;
      }
      sources[index] = heads_[index]->data;
    }
    if (reduction.waits_for_sends && !SentUpTo(reduction.done + bytes)) return false;
    Reduce(sources.data(), size, bytes / ElementBytes(reduction.call.type), reduction.call.type,
           reduction.call.reduction, reduction.destination + reduction.done);
    reduction.done += bytes;
    for (int peer = 0; peer < size; ++peer) {
      if (peer == communicator_.rank()) continue;
      heads_[static_cast<size_t>(peer)].reset();
      communicator_.link(peer).Release();
    }
    return true;
  }

  bool SentUpTo(uint64_t bytes) const {
    return std::all_of(plan_.sends.begin(), plan_.sends.end(),
                       [&](const Outgoing& each) { return each.sent >= bytes; });
  }

  // Returns why the plan cannot go on; empty while it may.
  std::string WhyStuck(std::chrono::steady_clock::time_point last_progress) {
    std::string call;
    for (int peer = 0; peer < communicator_.size(); ++peer) {
      if (peer == communicator_.rank() || !Needs(peer, &call)) continue;
      const std::string why = communicator_.WhyGone(peer);
      if (!why.empty()) return call + ": " + why;
    }
    const std::string network = communicator_.NetworkFailure();
    if (!network.empty() && !call.empty()) return call + ": " + network;
    const auto longest = std::chrono::seconds(communicator_.silence_seconds());
    if (communicator_.is_watched() || std::chrono::steady_clock::now() - last_progress < longest) {
      return "";
    }
    return call + ": rank 0 is gone, and no other rank has gone on for " +
           std::to_string(communicator_.silence_seconds()) + " seconds";
  }

  bool Needs(int peer, std::string* call) const {
    for (const Outgoing& each : plan_.sends) {
      const bool is_done = each.sent == each.bytes && communicator_.link(peer).AllSent();
      if (each.peer != peer || is_done) continue;
      *call = Describe(each.call);
      return true;
    }
    for (const Incoming& each : plan_.receives) {
      if (each.peer != peer || each.received == each.bytes) continue;
      *call = Describe(each.call);
      return true;
    }
    if (plan_.reduction.done == plan_.reduction.bytes) return false;
    *call = Describe(plan_.reduction.call);
    return !heads_[static_cast<size_t>(peer)].has_value();
  }

  // The oldest slot of a peer, a contribution.
  struct Head {
    const uint8_t* data = nullptr;
    uint64_t bytes = 0;
  };

  // The last looks for what a rank has sent that is gone.
  struct Drain {
    std::chrono::steady_clock::time_point end;
    int looks = 0;
  };

  Communicator& communicator_;
  Plan& plan_;
  std::optional<Drain> drain_;
  std::vector<std::optional<Head>> heads_;  // by rank
  std::string wrong_;
};

}  // namespace

absl::Status RunPlan(Communicator& communicator, Plan& plan) {
  return Runner(communicator, plan).Run();
}

}  // namespace hpu::emulator
