#include "recipe_store/redis/redis_socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

namespace hpu::store {
namespace {

// One sendmsg sends at most so many segments.
constexpr size_t kSegmentsAtOnce = 64;
// A peer that vanished is found after 5 + 3 * 2 seconds of silence, or 15 seconds of unacknowledged
// bytes.
constexpr int kKeepaliveIdleSeconds = 5;
constexpr int kKeepaliveIntervalSeconds = 2;
constexpr int kKeepaliveProbes = 3;
constexpr int kUserTimeoutMs = 15'000;

absl::Status Unavailable(const char* what, int error) {
  return Error(absl::StatusCode::kUnavailable, what, ": ", std::strerror(error));
}

absl::Status Late() { return Error(absl::StatusCode::kDeadlineExceeded, "no answer in time"); }

// Waits for `events`. Returns DEADLINE_EXCEEDED if none comes.
absl::Status Wait(int fd, short events, Deadline deadline) {
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return Late();
    pollfd poller{fd, events, 0};
    const int ready = poll(&poller, 1, static_cast<int>(std::min<int64_t>(left.count(), 60'000)));
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return Unavailable("poll", errno);
  }
}

using Numbers = absl::StatusOr<std::vector<RedisEndpoint>>;

Numbers Lookup(const RedisEndpoint& name, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(name.host.c_str(), std::to_string(name.port).c_str(), &hints, &found);
  if (error != 0) {
    return Error(absl::StatusCode::kUnavailable, "host ", name.host, ": ", gai_strerror(error));
  }
  std::vector<RedisEndpoint> numbers;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    char text[NI_MAXHOST];
    if (getnameinfo(at->ai_addr, at->ai_addrlen, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) ==
        0) {
      numbers.push_back({text, name.port});
    }
  }
  freeaddrinfo(found);
  return numbers;
}

// The state of a lookup, which may outlive its caller.
struct Pending {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Numbers> answer;  // guarded by mutex
};

absl::StatusOr<int> Open(const RedisEndpoint& number, Deadline deadline) {
  sockaddr_storage address{};
  socklen_t size = 0;
  auto* const v4 = reinterpret_cast<sockaddr_in*>(&address);
  auto* const v6 = reinterpret_cast<sockaddr_in6*>(&address);
  if (inet_pton(AF_INET, number.host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(number.port);
    size = sizeof(*v4);
  } else if (inet_pton(AF_INET6, number.host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(number.port);
    size = sizeof(*v6);
  } else {
    return Error(absl::StatusCode::kUnavailable, number.host, " is no address");
  }
  const int fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return Unavailable("socket", errno);
  const auto set = [&](int level, int option, int value) {
    setsockopt(fd, level, option, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kKeepaliveIdleSeconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kKeepaliveIntervalSeconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, kKeepaliveProbes);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
  absl::Status status;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    status = errno == EINPROGRESS ? Wait(fd, POLLOUT, deadline) : Unavailable("connect", errno);
    int error = 0;
    socklen_t error_size = sizeof(error);
    if (status.ok() && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_size) == 0 &&
        error != 0) {
      status = Unavailable("connect", error);
    }
  }
  if (status.ok()) return fd;
  close(fd);
  return status;
}

}  // namespace

bool IsNumber(const std::string& host) {
  in6_addr number{};
  return inet_pton(AF_INET, host.c_str(), &number) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &number) == 1;
}

absl::StatusOr<std::vector<RedisEndpoint>> Resolve(const RedisEndpoint& name, Deadline deadline) {
  Numbers number = Lookup(name, AI_NUMERICHOST);
  if (number.ok()) return number;
  const auto pending = std::make_shared<Pending>();
  try {
    std::thread([pending, name] {
      Numbers answer = Lookup(name, 0);
      std::lock_guard<std::mutex> lock(pending->mutex);
      pending->answer = std::move(answer);
      pending->changed.notify_all();
    }).detach();
  } catch (const std::system_error& error) {
    return Error(absl::StatusCode::kUnavailable, "no thread to look up a name: ", error.what());
  }
  std::unique_lock<std::mutex> lock(pending->mutex);
  if (!pending->changed.wait_until(lock, deadline, [&] { return pending->answer.has_value(); })) {
    return Error(absl::StatusCode::kDeadlineExceeded, "host ", name.host,
                 ": the name service did not answer in time");
  }
  return *pending->answer;
}

absl::StatusOr<RedisSocket> RedisSocket::Connect(const RedisEndpoint& endpoint, Deadline deadline) {
  ASSIGN_OR_RETURN(const std::vector<RedisEndpoint> numbers, Resolve(endpoint, deadline));
  absl::Status failure = Error(absl::StatusCode::kUnavailable, "the name has no address");
  for (const RedisEndpoint& number : numbers) {
    const absl::StatusOr<int> fd = Open(number, deadline);
    if (fd.ok()) return RedisSocket(*fd);
    failure = fd.status();
  }
  return failure;
}

RedisSocket::~RedisSocket() {
  if (fd_ >= 0) close(fd_);
}

absl::Status RedisSocket::Send(std::vector<std::span<const uint8_t>>& output, size_t& next) {
  while (next < output.size()) {
    iovec segments[kSegmentsAtOnce];
    size_t count = 0;
    for (; count < kSegmentsAtOnce && next + count < output.size(); ++count) {
      const std::span<const uint8_t> bytes = output[next + count];
      segments[count] = {const_cast<uint8_t*>(bytes.data()), bytes.size()};
    }
    msghdr message{};
    message.msg_iov = segments;
    message.msg_iovlen = count;
    const ssize_t sent = sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return absl::OkStatus();
    if (sent < 0) return Unavailable("sending", errno);
    auto left = static_cast<size_t>(sent);
    while (next < output.size() && left >= output[next].size()) left -= output[next++].size();
    if (left > 0) output[next] = output[next].subspan(left);
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> RedisSocket::Exchange(std::vector<std::span<const uint8_t>>& output,
                                             size_t& next, std::span<char> input,
                                             Deadline deadline) {
  while (true) {
    // The deadline also holds if there is always something to read: a peer may send a byte now and
    // then.
    if (std::chrono::steady_clock::now() >= deadline) return Late();
    // The read comes before a failed write is reported: a server that takes nothing more may still
    // have said why.
    const absl::Status sent = Send(output, next);
    const ssize_t size = recv(fd_, input.data(), input.size(), 0);
    if (size > 0) return static_cast<size_t>(size);
    if (size == 0) return Error(absl::StatusCode::kUnavailable, "the server closed the connection");
    if (errno != EAGAIN && errno != EINTR) return Unavailable("receiving", errno);
    RETURN_IF_ERROR(sent);
    const short events = next < output.size() ? POLLIN | POLLOUT : POLLIN;
    RETURN_IF_ERROR(Wait(fd_, events, deadline));
  }
}

bool RedisSocket::HasInput() const {
  char byte = 0;
  return recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
}

}  // namespace hpu::store
