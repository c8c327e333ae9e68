// Strict mode: which pieces of work are ordered, and whether two that are not touch the same
// memory.
//
// Every stream has a vector clock, which says for each stream how many pieces of its work come
// before what is queued next. The host has one, too: what it has seen end comes before everything
// that it queues later. Threads of the host share it, because they may order themselves in ways
// that are not seen here. Work is checked when it is queued, so a verdict does not depend on when
// it runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hpu::emulator {

struct MemoryUse {
  uint64_t address = 0;
  uint64_t bytes = 0;
  bool writes = false;
};

// Thread-safe.
class WorkOrder {
 public:
  // By stream: the number of its pieces of work that came before.
  using Clock = std::vector<uint64_t>;

  // `seed` decides the delays.
  explicit WorkOrder(uint64_t seed) : seed_(seed) {}

  // Returns the number of a new stream; numbers are counted from 0 and never given again.
  uint32_t AddStream();

  // Notes work that is queued on the stream. Returns what is wrong if it touches memory that work
  // of another stream touches, one of the two writes, and nothing orders them; else an empty text.
  std::string Add(uint32_t stream, const std::string& name, std::span<const MemoryUse> uses);

  // Returns the clock of what is queued on the stream so far, and `more` further pieces of work.
  Clock Reached(uint32_t stream, uint64_t more = 0) const;
  // Later work of the stream comes after `clock`.
  void StreamWaits(uint32_t stream, const Clock& clock);
  // The host has seen that everything before `clock` ended.
  void HostWaited(const Clock& clock);

  // Returns how long the stream waits before a piece of its work, so that streams meet in other
  // orders than their queueing. The same seed gives the same delays. There are none while only one
  // stream has had work.
  std::chrono::microseconds Delay(uint32_t stream, uint64_t work) const;

  static constexpr std::chrono::microseconds kLongestDelay{500};

 private:
  // The work that touched some memory.
  struct Touch {
    uint32_t stream = 0;
    uint64_t work = 0;  // the number of the work on its stream, counted from 1
    std::shared_ptr<const std::string> name;
  };
  struct Segment {
    uint64_t end = 0;
    std::optional<Touch> writer;
    std::vector<Touch> readers;  // since then, the last of each stream
  };
  using Segments = std::map<uint64_t, Segment>;  // by first address; they do not overlap

  bool IsBefore(const Touch& touch, const Clock& clock) const;
  // Returns the touch that `use` conflicts with, if any.
  const Touch* FindConflict(const Segment& segment, bool writes, uint32_t stream) const;
  // Makes segments begin and end at the borders of the range, and fills its gaps.
  void SplitAt(uint64_t address);
  void Cover(uint64_t begin, uint64_t end);
  void Note(const MemoryUse& use, const Touch& touch);
  // Forgets what came before everything that may still be queued.
  void Forget();

  const uint64_t seed_;
  mutable std::mutex mutex_;  // guards all members below
  std::vector<Clock> streams_;
  Clock host_;
  uint32_t busy_streams_ = 0;  // that have had work
  Segments segments_;
  size_t forget_at_ = 4096;
};

}  // namespace hpu::emulator
