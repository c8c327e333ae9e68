// An event: a captured point of a stream's work, or the moment when an external tensor of a launch
// is ready.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "emulator/streams/progress.h"
#include "emulator/streams/stream.h"

namespace hpu::emulator {

// The point that an event stands for at one moment. A default one is complete.
struct Capture {
  std::shared_ptr<Progress> progress;
  uint64_t sequence = 0;
  std::weak_ptr<Stream> stream;  // for waiters that can run its work; empty for signals
  // In nanoseconds of the monotonic clock; 0 until the point is passed. Null without a time stamp.
  std::shared_ptr<std::atomic<uint64_t>> stamp;
  // In the order of all work; null except in strict mode.
  std::shared_ptr<const WorkOrder::Clock> point;

  bool Done() const { return progress == nullptr || progress->Reached(sequence); }
  // Whether a collective on the event's stream has failed and nobody has taken the failure yet.
  bool CollectiveFailed() const {
    return progress != nullptr && progress->failure() == synFailHccl;
  }
  void Wait() const;
};

class Event {
 public:
  explicit Event(bool collect_time) : collect_time_(collect_time) {}

  bool collect_time() const { return collect_time_; }
  bool recorded() const;
  Capture capture() const;
  void set_capture(Capture capture);

  // The tensor of a recipe for which the next launch signals this event (synEventMapTensor).
  struct Mapping {
    const void* recipe = nullptr;
    uint64_t tensor_id = 0;
  };
  void set_mapping(Mapping mapping);
  std::optional<Mapping> TakeMapping();

 private:
  const bool collect_time_;
  mutable std::mutex mutex_;
  bool recorded_ = false;
  Capture capture_;
  std::optional<Mapping> mapping_;
};

// A stream that waits for an event queues this. If a collective failed before the event, the
// waiting stream fails, too: what it would go on with has never arrived.
class WaitWork : public Work {
 public:
  explicit WaitWork(Capture capture) : capture_(std::move(capture)) {}
  synStatus Run() override;

 private:
  const Capture capture_;
};

// A record with a time stamp queues this.
class StampWork : public Work {
 public:
  explicit StampWork(std::shared_ptr<std::atomic<uint64_t>> stamp) : stamp_(std::move(stamp)) {}
  synStatus Run() override;

 private:
  const std::shared_ptr<std::atomic<uint64_t>> stamp_;
};

}  // namespace hpu::emulator
