// Real Redis servers for tests, and one that answers what a test says.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "recipe_store/redis/redis_client.h"
#include "recipe_store/redis/redis_recipe_store.h"
#include "tests/store/store_testing.h"

namespace hpu::store {

// Why tests with a real server cannot run here; empty if they can.
std::string WhyNoRedis();

// A redis-server on a free port of the loopback, killed with the object and with the test program.
class RedisServer {
 public:
  // `arguments` are added to its command line, `config` is its configuration file. A sentinel
  // writes to that file what it learns.
  explicit RedisServer(std::vector<std::string> arguments = {}, const std::string& config = "",
                       bool is_sentinel = false);
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;

  uint16_t port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  RedisEndpoint endpoint() const { return {"127.0.0.1", port_}; }

  void Kill();
  void Start();  // on the same port, with an empty memory
  void Signal(int number);
  // One command outside of any store. Text of arrays: elements joined by blanks.
  RedisReply Command(std::vector<std::string> words, const std::string& password = "") const;
  std::string Text(std::vector<std::string> words) const;
  // Keys that match, sorted.
  std::vector<std::string> Keys(const std::string& pattern) const;

 private:
  const TemporaryFolder folder_;
  const std::vector<std::string> arguments_;
  const std::string config_;
  const bool is_sentinel_;
  uint16_t port_ = 0;
  pid_t pid_ = 0;
};

// Listens; each connection is answered by `answer`, called with what came. An empty function: takes
// connections and never says a word.
class FakeServer {
 public:
  using Answer = std::function<std::string(const std::string& request)>;
  enum class Manner { kStays, kClosesAfterAnswer, kTrickles };  // a byte every 20 ms
  explicit FakeServer(Answer answer, Manner manner = Manner::kStays);
  ~FakeServer();
  FakeServer(const FakeServer&) = delete;

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  RedisEndpoint endpoint() const { return {"127.0.0.1", port_}; }

 private:
  void Serve();
  void ServeOne(int fd);

  const Answer answer_;
  const Manner manner_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

// A listening socket whose queue is full: the kernel drops who knocks, as a black hole does.
class FullListener {
 public:
  FullListener();
  ~FullListener();
  FullListener(const FullListener&) = delete;
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  uint16_t port_ = 0;
  std::vector<int> sockets_;
};

// Small times, so that tests are short: a call lasts at most 100 + 300 ms and a pause 200 ms.
RedisOptions TestOptions(const std::string& addresses);
std::unique_ptr<RedisRecipeStore> StoreAt(const RedisOptions& options);
std::unique_ptr<RedisRecipeStore> StoreAt(const std::string& addresses);
uint64_t CounterOf(const RecipeStore& store, const std::string& name);
// Runs `call` until it is true; false after `limit`.
bool Eventually(std::chrono::milliseconds limit, const std::function<bool()>& call);
// Milliseconds that `call` takes.
int64_t Millis(const std::function<void()>& call);

}  // namespace hpu::store
