#include "compiler_server/service/workers/frame_channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>

namespace hpu::server {
namespace {

// This is protobuf's own limit.
constexpr uint64_t kMaxFrameBytes = std::numeric_limits<int32_t>::max();

absl::Status Gone(const char* what) {
  return Error(absl::StatusCode::kUnavailable, what, ": ", std::strerror(errno));
}

}  // namespace

FrameChannel::FrameChannel(int fd) : fd_(fd) { fcntl(fd_, F_SETFL, O_NONBLOCK); }

FrameChannel::~FrameChannel() { close(fd_); }

absl::Status FrameChannel::Send(const google::protobuf::MessageLite& message,
                                std::optional<Deadline> deadline) {
  const uint64_t size = message.ByteSizeLong();
  if (size > kMaxFrameBytes) {
    return Error(absl::StatusCode::kResourceExhausted, "a message of ", size,
                 " bytes is too large; at most ", kMaxFrameBytes, " can be sent");
  }
  const uint32_t header = static_cast<uint32_t>(size);
  const std::string body = message.SerializeAsString();
  RETURN_IF_ERROR(SendAll(&header, sizeof(header), deadline));
  return SendAll(body.data(), body.size(), deadline);
}

absl::Status FrameChannel::Receive(google::protobuf::MessageLite* message,
                                   std::optional<Deadline> deadline) {
  uint32_t size = 0;
  RETURN_IF_ERROR(ReceiveAll(&size, sizeof(size), deadline));
  if (size > kMaxFrameBytes) return DataLoss("a message announces ", size, " bytes");
  std::string body(size, '\0');
  RETURN_IF_ERROR(ReceiveAll(body.data(), body.size(), deadline));
  if (!message->ParseFromString(body)) return DataLoss("a message of ", size, " bytes is damaged");
  return absl::OkStatus();
}

absl::Status FrameChannel::SendAll(const void* data, size_t size,
                                   std::optional<Deadline> deadline) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t sent = send(fd_, at, size, MSG_NOSIGNAL);
    if (sent > 0) {
      at += sent;
      size -= static_cast<size_t>(sent);
    } else if (errno == EAGAIN) {
      RETURN_IF_ERROR(WaitFor(POLLOUT, deadline));
    } else if (errno != EINTR) {
      return Gone("sending");
    }
  }
  return absl::OkStatus();
}

absl::Status FrameChannel::ReceiveAll(void* data, size_t size, std::optional<Deadline> deadline) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t received = recv(fd_, at, size, 0);
    if (received > 0) {
      at += received;
      size -= static_cast<size_t>(received);
    } else if (received == 0) {
      return Error(absl::StatusCode::kUnavailable, "the other end closed the connection");
    } else if (errno == EAGAIN) {
      RETURN_IF_ERROR(WaitFor(POLLIN, deadline));
    } else if (errno != EINTR) {
      return Gone("receiving");
    }
  }
  return absl::OkStatus();
}

absl::Status FrameChannel::WaitFor(short events, std::optional<Deadline> deadline) {
  int timeout_ms = -1;
  if (deadline.has_value()) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(*deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return Error(absl::StatusCode::kDeadlineExceeded, "no answer in time");
    timeout_ms = static_cast<int>(std::min<int64_t>(left.count(), 60 * 60 * 1000));
  }
  pollfd waiting{fd_, events, 0};
  // Whatever the outcome, the caller tries again and finds data, an error or the deadline.
  poll(&waiting, 1, timeout_ms);
  return absl::OkStatus();
}

}  // namespace hpu::server
