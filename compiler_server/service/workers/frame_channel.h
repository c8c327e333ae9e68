// Sends protobuf messages over a socket pair, each after its length (u32, little endian).
#pragma once

#include <google/protobuf/message_lite.h>

#include <chrono>
#include <optional>

#include "base/status.h"

namespace hpu::server {

using Deadline = std::chrono::steady_clock::time_point;

// Not thread-safe. It owns the descriptor.
class FrameChannel {
 public:
  explicit FrameChannel(int fd);
  ~FrameChannel();
  FrameChannel(const FrameChannel&) = delete;
  FrameChannel& operator=(const FrameChannel&) = delete;

  // Returns UNAVAILABLE if the other end is gone, DEADLINE_EXCEEDED after the deadline, and
  // DATA_LOSS if what was received is no message. Without a deadline it waits for ever, which only
  // a worker that waits for work may do.
  absl::Status Send(const google::protobuf::MessageLite& message, std::optional<Deadline> deadline);
  absl::Status Receive(google::protobuf::MessageLite* message, std::optional<Deadline> deadline);

 private:
  absl::Status SendAll(const void* data, size_t size, std::optional<Deadline> deadline);
  absl::Status ReceiveAll(void* data, size_t size, std::optional<Deadline> deadline);
  absl::Status WaitFor(short events, std::optional<Deadline> deadline);

  const int fd_;
};

}  // namespace hpu::server
