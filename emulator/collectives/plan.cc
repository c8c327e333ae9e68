#include "emulator/collectives/plan.h"

#include <algorithm>
#include <cstring>

#include "emulator/collectives/reduction.h"

namespace hpu::emulator {
namespace {

// Up to this size a rank sends its whole contribution to every other one, and each computes the
// whole result: one step instead of two, for more bytes. `benchmarks/collectives.py --crossover`
// measures where the two are equal.
constexpr uint64_t kMostOneStepBytes = uint64_t{16} << 10;
// Parts begin at multiples of this, so that loops over them are aligned.
constexpr uint64_t kPartAlignment = 64;

// The part of `count` elements that belongs to a rank.
struct Range {
  uint64_t begin = 0;
  uint64_t size = 0;
};

Range PartOf(uint64_t count, int size, int rank) {
  const auto ranks = static_cast<uint64_t>(size);
  const uint64_t step =
      ((count + ranks - 1) / ranks + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
  const uint64_t begin = std::min(count, step * static_cast<uint64_t>(rank));
  return {begin, std::min(step, count - begin)};
}

void CopyIfOther(const uint8_t* source, uint64_t bytes, uint8_t* destination) {
  if (source != destination && bytes != 0) std::memmove(destination, source, bytes);
}

class Planner {
 public:
  Planner(const CollectiveCall& call, const Buffers& buffers, int size, int rank, Plan* plan)
      : call_(call),
        buffers_(buffers),
        size_(size),
        rank_(rank),
        width_(ElementBytes(call.description.type)),
        plan_(*plan) {}

  void Add() {
    const CallDescription& description = call_.description;
    const uint64_t bytes = description.count * width_;
    switch (description.kind) {
      case CollectiveKind::kAllReduce:
        return bytes <= kMostOneStepBytes ? ReduceWhole(-1) : ReduceInParts(-1);
      case CollectiveKind::kReduce:
        return bytes <= kMostOneStepBytes ? ReduceWhole(description.root)
                                          : ReduceInParts(description.root);
      case CollectiveKind::kReduceScatter:
        return ReduceScatter(bytes);
      case CollectiveKind::kBroadcast:
        return size_ == 2 || bytes <= kMostOneStepBytes ? BroadcastWhole(bytes)
                                                        : BroadcastInParts();
      case CollectiveKind::kAllGather:
        return AllGather(bytes);
      case CollectiveKind::kAllToAll:
        return AllToAll(bytes / static_cast<uint64_t>(size_));
      case CollectiveKind::kPointToPoint:
        if (buffers_.send != nullptr) return Send(call_.peer, Part::kData, buffers_.send, bytes);
        return Receive(call_.peer, buffers_.receive, bytes);
    }
  }

 private:
  void Send(int peer, Part part, const uint8_t* data, uint64_t bytes,
            const uint64_t* available = nullptr) {
    if (bytes == 0) return;
    plan_.sends.push_back({call_.description, peer, part, data, bytes, available, 0});
  }
  void Receive(int peer, uint8_t* data, uint64_t bytes) {
    if (bytes != 0) plan_.receives.push_back({call_.description, peer, data, bytes, 0});
  }
  void Compute(const uint8_t* own, uint8_t* destination, uint64_t bytes, bool waits) {
    plan_.reduction = {call_.description, own, destination, bytes, 0, waits};
  }
  template <typename Visit>
  void ForOthers(const Visit& visit) {
    // Every rank begins with its neighbour, so that not all send to one rank at first.
    for (int step = 1; step < size_; ++step) visit((rank_ + step) % size_);
  }

  // The part of the buffer that belongs to a rank, in bytes.
  Range PartBytes(int owner) const {
    const Range range = PartOf(call_.description.count, size_, owner);
    return {range.begin * width_, range.size * width_};
  }

  // `root` -1: every rank needs the result.
  void ReduceWhole(int root) {
    const uint64_t bytes = call_.description.count * width_;
    ForOthers([&](int peer) {
      if (root < 0 || peer == root) Send(peer, Part::kContribution, buffers_.send, bytes);
    });
    if (root >= 0 && rank_ != root) return;
    Compute(buffers_.send, buffers_.receive, bytes, root < 0 && buffers_.send == buffers_.receive);
  }

  void ReduceInParts(int root) {
    const Range own = PartBytes(rank_);
    const bool keeps = root < 0 || rank_ == root;
    // Only the root of a reduction to one rank has a buffer for the result.
    if (!keeps) plan_.scratch.resize(own.size);
    Compute(buffers_.send + own.begin, keeps ? buffers_.receive + own.begin : plan_.scratch.data(),
            own.size, false);
    ForOthers([&](int peer) {
      if (root < 0 || peer == root) {
        Send(peer, Part::kData, plan_.reduction.destination, own.size, &plan_.reduction.done);
      }
    });
    ForOthers([&](int peer) {
      Send(peer, Part::kContribution, buffers_.send + PartBytes(peer).begin, PartBytes(peer).size);
      if (keeps) Receive(peer, buffers_.receive + PartBytes(peer).begin, PartBytes(peer).size);
    });
  }

  void ReduceScatter(uint64_t bytes) {
    const auto block = [&](int owner) {
      return buffers_.send + static_cast<uint64_t>(owner) * bytes;
    };
    ForOthers([&](int peer) { Send(peer, Part::kContribution, block(peer), bytes); });
    Compute(block(rank_), buffers_.receive, bytes, false);
  }

  void BroadcastWhole(uint64_t bytes) {
    const int root = call_.description.root;
    if (rank_ != root) return Receive(root, buffers_.receive, bytes);
    ForOthers([&](int peer) { Send(peer, Part::kData, buffers_.send, bytes); });
    CopyIfOther(buffers_.send, bytes, buffers_.receive);
  }

  // The root sends each rank a part, which that rank passes on: the root sends everything once.
  void BroadcastInParts() {
    const int root = call_.description.root;
    const Range own = PartBytes(rank_);
    if (rank_ == root) {
      ForOthers([&](int peer) {
        Send(peer, Part::kData, buffers_.send + PartBytes(peer).begin, PartBytes(peer).size);
      });
      ForOthers([&](int peer) { Send(peer, Part::kData, buffers_.send + own.begin, own.size); });
      CopyIfOther(buffers_.send, call_.description.count * width_, buffers_.receive);
      return;
    }
    // References into the list stay valid: it holds two parts of the root and one of each other.
    plan_.receives.reserve(plan_.receives.size() + static_cast<size_t>(size_) + 1);
    const size_t first = plan_.receives.size();
    Receive(root, buffers_.receive + own.begin, own.size);
    const uint64_t* arrived = own.size != 0 ? &plan_.receives[first].received : nullptr;
    Receive(root, buffers_.receive + PartBytes(root).begin, PartBytes(root).size);
    ForOthers([&](int peer) {
      if (peer == root) return;
      Send(peer, Part::kData, buffers_.receive + own.begin, own.size, arrived);
      Receive(peer, buffers_.receive + PartBytes(peer).begin, PartBytes(peer).size);
    });
  }

  void AllGather(uint64_t bytes) {
    const auto block = [&](int owner) {
      return buffers_.receive + static_cast<uint64_t>(owner) * bytes;
    };
    CopyIfOther(buffers_.send, bytes, block(rank_));
    ForOthers([&](int peer) {
      Send(peer, Part::kData, buffers_.send, bytes);
      Receive(peer, block(peer), bytes);
    });
  }

  void AllToAll(uint64_t bytes) {
    const auto offset = [&](int owner) { return static_cast<uint64_t>(owner) * bytes; };
    CopyIfOther(buffers_.send + offset(rank_), bytes, buffers_.receive + offset(rank_));
    ForOthers([&](int peer) {
      Send(peer, Part::kData, buffers_.send + offset(peer), bytes);
      Receive(peer, buffers_.receive + offset(peer), bytes);
    });
  }

  const CollectiveCall& call_;
  const Buffers& buffers_;
  const int size_;
  const int rank_;
  const uint64_t width_;
  Plan& plan_;
};

}  // namespace

std::string WhyWrong(const CallDescription& call, int size) {
  if (ElementBytes(call.type) == 0) return "there is no data " + NameOf(call.type);
  const auto ranks = static_cast<uint64_t>(size);
  const std::string count = "the count " + std::to_string(call.count);
  if (call.count > ~uint64_t{0} / 8 / ranks) return count + " is too large";
  const bool reduces = call.kind == CollectiveKind::kAllReduce ||
                       call.kind == CollectiveKind::kReduce ||
                       call.kind == CollectiveKind::kReduceScatter;
  if (reduces && !IsReduction(call.reduction)) return "there is no " + NameOf(call.reduction);
  const std::string among = std::to_string(size) + " ranks";
  if (call.root >= size) return "the root " + std::to_string(call.root) + " is none of " + among;
  if (call.kind == CollectiveKind::kAllToAll && call.count % ranks != 0) {
    return count + " cannot be divided among " + among;
  }
  return "";
}

BufferBytes BytesOf(const CollectiveCall& call, int size, int rank) {
  const uint64_t bytes = call.description.count * ElementBytes(call.description.type);
  const uint64_t all = bytes * static_cast<uint64_t>(size);
  const bool is_root = call.description.root == rank;
  switch (call.description.kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kAllToAll:
      return {bytes, bytes};
    case CollectiveKind::kReduce:
      return {bytes, is_root ? bytes : 0};
    case CollectiveKind::kReduceScatter:
      return {all, bytes};
    case CollectiveKind::kBroadcast:
      return {is_root ? bytes : 0, bytes};
    case CollectiveKind::kAllGather:
      return {bytes, all};
    case CollectiveKind::kPointToPoint:
      return {call.send != 0 ? bytes : 0, call.receive != 0 ? bytes : 0};
  }
  return {};
}

void AddToPlan(const CollectiveCall& call, const Buffers& buffers, int size, int rank, Plan* plan) {
  Planner(call, buffers, size, rank, plan).Add();
}

}  // namespace hpu::emulator
