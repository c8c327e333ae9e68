// Streams and events over those of the device. Streams live as long as the device. A stream is
// named by its id, and 0 is the default one. Work of one stream runs in order; different streams
// run independently.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "backend/runtime/launch_history.h"
#include "base/status.h"
#include "synapse/include/synapse_api_types.h"

namespace hpu::runtime {

class Device;
class Event;

class Stream {
 public:
  static constexpr uint32_t kMostStreams = 64;  // ids are less

  Stream(Device& device, uint32_t id, synStreamHandle handle)
      : device_(device), id_(id), handle_(handle), launches_(handle) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  uint32_t id() const { return id_; }
  synStreamHandle handle() const { return handle_; }
  Device& device() const { return device_; }
  LaunchHistory& launches() { return launches_; }

  // Blocks until all work queued so far has ended; reports a failure in it.
  absl::Status Synchronize();
  // Returns true when nothing is pending.
  absl::StatusOr<bool> Query();
  // Makes later work of this stream wait for the point that `event` has recorded now. If the event
  // is a point of a capture, this stream's work becomes part of the capture.
  absl::Status Wait(Event& event);
  // Makes later work of this stream wait for all that is queued on `other` now.
  absl::Status WaitFor(Stream& other);

  // Positions count the uses of memory by work of this stream (stream_uses.h). Work that is queued
  // after the call is at the returned position or behind it.
  uint64_t NextPosition() { return 1 + position_.fetch_add(1, std::memory_order_relaxed); }
  // Returns the position up to which the work of all uses is queued.
  uint64_t QueuedPosition();
  // Returns whether this stream waits for the work of `other` up to a position.
  bool IsAfter(const Stream& other, uint64_t position) const;

 private:
  friend class QueueingCall;

  absl::Status WaitForAll();

  Device& device_;
  const uint32_t id_;
  const synStreamHandle handle_;
  LaunchHistory launches_;
  std::atomic<uint64_t> position_{1};
  std::mutex calls_mutex_;
  std::vector<uint64_t> calls_;  // the positions at which the calls in progress began
  // By the id of another stream: the position up to which this one waits for it.
  std::array<std::atomic<uint64_t>, kMostStreams> waits_{};
};

// A call that notes uses of memory and then queues the work that makes them. An event that is
// recorded in between, by another thread or by work that the call has to queue first, does not
// cover these uses. Calls may nest. While the device has one stream, this is two loads of a flag.
class QueueingCall {
 public:
  explicit QueueingCall(Stream& stream);
  ~QueueingCall();
  QueueingCall(const QueueingCall&) = delete;
  QueueingCall& operator=(const QueueingCall&) = delete;

 private:
  Stream& stream_;
  const bool noted_;  // the device had several streams when the call began
  uint64_t start_ = 0;
};

// A point in a stream. Two threads must not use one event at once. An event that was never recorded
// counts as complete. An event that is recorded while the stream's work is captured is a point of
// the capture: streams can wait for it until the capture ends, and nothing else can be done with
// it.
class Event {
 public:
  explicit Event(bool timing = false) : timing_(timing) {}
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  absl::Status Record(Stream& stream);
  absl::StatusOr<bool> Query() const;
  absl::Status Synchronize() const;
  // Returns the milliseconds from this event to `end`. Both must be recorded, complete and made
  // with timing.
  absl::StatusOr<double> ElapsedMs(const Event& end) const;

  synEventHandle handle() const { return handle_; }  // null before the first Record
  // The stream of the last Record, and its position then. Call these after Record only.
  const Stream& stream() const { return *stream_; }
  uint64_t position() const { return position_; }
  bool timing() const { return timing_; }

 private:
  // Converts the status of a wait into the status for the caller, and notes in the stream's history
  // that the launches before the event have ended.
  absl::Status Settle(const absl::Status& waited) const;
  absl::Status CheckNotCaptured(const char* use) const;

  friend class Stream;

  const bool timing_;
  Device* device_ = nullptr;
  synEventHandle handle_ = nullptr;
  Stream* stream_ = nullptr;  // the one that recorded it last
  uint64_t launches_ = 0;     // the number of the stream's launches before that
  uint64_t position_ = 0;     // the stream's QueuedPosition() at that time
  uint64_t capture_ = 0;      // the capture of which it is a point; 0: of none
};

// Adds to a failed stream's error the names of the work that may have caused it.
absl::Status WithSuspects(const absl::Status& failure, const LaunchHistory& launches);

// Calls that are recorded instead of queued. Its functions may throw.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  // Queues what has been recorded for a stream, or for all streams if it is given null. It is
  // called before a point of a stream is recorded or waited for.
  virtual void QueueWorkOf(const Stream* stream) = 0;
  // Returns the number of the capture that takes the stream's work, or 0.
  virtual uint64_t CaptureOf(const Stream& stream) = 0;
  // Makes a stream's later work part of a capture. Returns false if the capture has ended.
  virtual bool JoinCapture(const Stream& stream, uint64_t capture) = 0;
};

// Call this once, before the device is used. `work` must outlive the device.
void SetRecordedWork(RecordedWork* work);
void QueueRecorded(const Stream* stream);

// Returns the calling thread's current stream id (0 at thread start).
uint32_t CurrentStreamId();
void SetCurrentStreamId(uint32_t id);

}  // namespace hpu::runtime
