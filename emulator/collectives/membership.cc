#include "emulator/collectives/membership.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace hpu::emulator {
namespace {

constexpr std::chrono::seconds kTick{1};
constexpr std::chrono::seconds kSendTime{1};
constexpr uint64_t kMostTextBytes = 4096;

}  // namespace

Membership::Membership(Star star, int num_ranks, int rank, uint64_t silence_seconds, Events events)
    : rank_(rank),
      silence_seconds_(silence_seconds),
      events_(std::move(events)),
      stop_(eventfd(0, EFD_CLOEXEC)) {
  if (rank != 0) {
    connections_.push_back({.rank = 0, .socket = std::move(star.connections[0])});
  } else {
    for (int each = 1; each < num_ranks; ++each) {
      connections_.push_back(
          {.rank = each, .socket = std::move(star.connections[static_cast<size_t>(each)])});
    }
  }
  thread_ = std::thread([this] { Watch(); });
}

Membership::~Membership() {
  Send(Kind::kGone, rank_, "");
  const uint64_t one = 1;
  (void)!write(stop_.descriptor(), &one, sizeof(one));
  thread_.join();
}

void Membership::Declare(const std::string& reason) {
  Send(Kind::kFailed, rank_, reason.substr(0, kMostTextBytes));
}

void Membership::Send(Kind kind, int rank, const std::string& text, int except) {
  const Header header{kind, rank, text.size()};
  std::string message(reinterpret_cast<const char*>(&header), sizeof(header));
  message += text;
  std::lock_guard lock(send_mutex_);
  for (const Connection& each : connections_) {
    if (!each.socket.open() || each.rank == except) continue;
    // A rank that takes no messages is found by its silence.
    (void)WriteAll(each.socket, message.data(), message.size(),
                   std::chrono::steady_clock::now() + kSendTime);
  }
}

// The time is counted in this thread's own ticks: a process that was stopped itself must not take
// the others for silent.
void Membership::Beat() {
  Send(Kind::kHeartbeat, rank_, "");
  for (Connection& each : connections_) {
    if (!each.socket.open() || ++each.silent_ticks < silence_seconds_) continue;
    End(each, "rank " + std::to_string(each.rank) + " has not been heard of for " +
                  std::to_string(silence_seconds_) +
                  " seconds: its process is stopped, or its host cannot be reached");
  }
}

void Membership::End(Connection& connection, const std::string& reason) {
  const bool planned = connection.said_goodbye;
  {
    std::lock_guard lock(send_mutex_);
    connection.socket.Close();
  }
  if (connection.rank == 0) is_watched_.store(false, std::memory_order_release);
  // The others hear of it first, because this process may end as soon as it does.
  if (rank_ == 0) Send(Kind::kGone, connection.rank, planned ? "" : reason);
  events_.gone(connection.rank, planned ? "" : reason);
}

void Membership::Handle(Connection& connection, const Header& header, const std::string& text) {
  connection.silent_ticks = 0;
  switch (header.kind) {
    case Kind::kHeartbeat:
      return;
    case Kind::kGone:
      // Rank 0 passes on what it sees of others; a rank says it of itself.
      if (header.rank == connection.rank) {
        connection.said_goodbye = true;
      } else {
        events_.gone(header.rank, text);
      }
      return;
    case Kind::kFailed:
      if (rank_ == 0) Send(Kind::kFailed, header.rank, text, connection.rank);
      events_.failed(text);
      return;
  }
}

bool Membership::Read(Connection& connection) {
  uint8_t bytes[4096];
  for (;;) {
    const ssize_t count = recv(connection.socket.descriptor(), bytes, sizeof(bytes), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count <= 0) return false;
    connection.received.insert(connection.received.end(), bytes, bytes + count);
    for (;;) {
      Header header;
      if (connection.received.size() < sizeof(header)) break;
      std::memcpy(&header, connection.received.data(), sizeof(header));
      if (header.bytes > kMostTextBytes) return false;
      const size_t size = sizeof(header) + header.bytes;
      if (connection.received.size() < size) break;
      const std::string text(connection.received.begin() + sizeof(header),
                             connection.received.begin() + static_cast<ptrdiff_t>(size));
      connection.received.erase(connection.received.begin(),
                                connection.received.begin() + static_cast<ptrdiff_t>(size));
      Handle(connection, header, text);
    }
  }
  return true;
}

void Membership::Watch() {
  auto next_beat = std::chrono::steady_clock::now() + kTick;
  for (;;) {
    std::vector<pollfd> ready = {{stop_.descriptor(), POLLIN, 0}};
    for (const Connection& each : connections_) {
      ready.push_back({each.socket.descriptor(), POLLIN, 0});  // -1 is ignored
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        next_beat - std::chrono::steady_clock::now());
    poll(ready.data(), ready.size(), left.count() < 0 ? 0 : static_cast<int>(left.count()) + 1);
    if (ready[0].revents != 0) return;
    for (size_t i = 0; i < connections_.size(); ++i) {
      if (ready[i + 1].revents == 0 || Read(connections_[i])) continue;
      End(connections_[i], "rank " + std::to_string(connections_[i].rank) +
                               " has closed its connection: its process has ended");
    }
    if (std::chrono::steady_clock::now() >= next_beat) {
      Beat();
      next_beat = std::chrono::steady_clock::now() + kTick;
    }
  }
}

}  // namespace hpu::emulator
