// Watches the ranks of a communicator over the connections of its rendezvous. Every rank sends a
// heartbeat each second; rank 0 tells all others what it sees of one.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "emulator/collectives/rendezvous.h"

namespace hpu::emulator {

// Thread-safe.
class Membership {
 public:
  struct Events {
    // A rank takes no further part. `reason` is a sentence about it; it is empty if the rank has
    // destroyed the communicator as planned.
    std::function<void(int rank, const std::string& reason)> gone;
    // A rank declares the communicator failed.
    std::function<void(const std::string& reason)> failed;
  };

  // `silence_seconds` without a heartbeat mean that a rank is gone. The events come from a thread
  // of this object.
  Membership(Star star, int num_ranks, int rank, uint64_t silence_seconds, Events events);
  // Tells the others that this rank leaves.
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  // Tells all others that the communicator has failed.
  void Declare(const std::string& reason);
  // Returns whether rank 0 is there, through which ranks hear of each other.
  bool is_watched() const { return is_watched_.load(std::memory_order_acquire); }

 private:
  enum class Kind : uint32_t { kHeartbeat = 1, kGone, kFailed };
  struct Header {
    Kind kind = Kind::kHeartbeat;
    int32_t rank = 0;
    uint64_t bytes = 0;  // of the text that follows
  };
  struct Connection {
    int rank = 0;
    Socket socket;
    std::vector<uint8_t> received;  // not handled yet
    uint64_t silent_ticks = 0;
    bool said_goodbye = false;
  };

  void Watch();
  // Returns false when the connection has ended.
  bool Read(Connection& connection);
  void Handle(Connection& connection, const Header& header, const std::string& text);
  void End(Connection& connection, const std::string& reason);
  void Beat();
  // Sends to every connection but that of rank `except`.
  void Send(Kind kind, int rank, const std::string& text, int except = -1);

  const int rank_;
  const uint64_t silence_seconds_;
  const Events events_;
  std::mutex send_mutex_;  // guards sending, and the closing of connections
  std::vector<Connection> connections_;
  std::atomic<bool> is_watched_{true};
  Socket stop_;  // readable once the thread is to end
  std::thread thread_;
};

}  // namespace hpu::emulator
