// RedisServer is a real Redis server for tests, and FakeServer answers what a test says.
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
#include "tests/eventually.h"
#include "tests/store/store_testing.h"

namespace hpu::store {

// Says why tests with a real server cannot run here. The text is empty if they can.
std::string WhyNoRedis();

// A RedisServer is a redis-server on a free port of the loopback. It is killed with the object and
// with the test program.
class RedisServer {
 public:
  // `arguments` are added to its command line, and `config` is its configuration file. A sentinel
  // writes to that file what it learns.
  explicit RedisServer(std::vector<std::string> arguments = {}, const std::string& config = "",
                       bool is_sentinel = false);
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;

  uint16_t port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  RedisEndpoint endpoint() const { return {"127.0.0.1", port_}; }

  void Kill();
  void Start();  // starts on the same port, with an empty memory
  void Signal(int number);
  // These run one command outside of any store. The text of an array is its elements joined by
  // blanks.
  RedisReply Command(std::vector<std::string> words, const std::string& password = "") const;
  std::string Text(std::vector<std::string> words) const;
  // Returns the keys that match, sorted.
  std::vector<std::string> Keys(const std::string& pattern) const;

 private:
  const TemporaryFolder folder_;
  const std::vector<std::string> arguments_;
  const std::string config_;
  const bool is_sentinel_;
  uint16_t port_ = 0;
  pid_t pid_ = 0;
};

// A FakeServer listens, and `answer` is called with what came and answers each connection. With an
// empty function it takes connections and never says a word.
class FakeServer {
 public:
  using Answer = std::function<std::string(const std::string& request)>;
  // kTrickles sends a byte every 20 ms, for which no single read waits long
  enum class Manner { kStays, kClosesAfterAnswer, kTrickles };
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

// A FullListener is a listening socket whose queue is full: the kernel drops who knocks, as a black
// hole does.
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

// Returns options for servers that answer: only a hang ends a call, and the first pause is 200 ms.
RedisOptions TestOptions(const std::string& addresses);
// Returns options for servers that do not answer: a call lasts at most 100 + 300 ms.
RedisOptions ImpatientOptions(const std::string& addresses);
std::unique_ptr<RedisRecipeStore> StoreAt(const RedisOptions& options);
std::unique_ptr<RedisRecipeStore> StoreAt(const std::string& addresses);
uint64_t CounterOf(const RecipeStore& store, const std::string& name);
// Returns how long `call` takes.
std::chrono::milliseconds TimeOf(const std::function<void()>& call);

}  // namespace hpu::store
