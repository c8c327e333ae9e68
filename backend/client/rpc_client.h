// The compile protocol as calls: every call has a deadline, can be interrupted, and gives nothing
// that was not verified. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/client/connection.h"
#include "recipe_store/recipe_store.h"
#include "recipe_store/signing.h"

namespace hpu::client {

// Asked every 100 ms while a call waits; anything but OK cancels the call, which then returns it.
using Interrupt = std::function<absl::Status()>;

struct ServerInfo {
  std::string build_id;
  uint32_t protocol_version = 0;
  pid_t pid = 0;
};

enum class Origin { kCompiled, kCoalesced, kStore, kMemory };

struct CompileCall {
  Digest key{};
  std::string graph;  // serialised hpu.wire.Graph
  std::vector<std::pair<std::string, std::string>> options;
  std::vector<store::KeyFactor> factors;
  std::string device_kind;
  std::string isa_level;
  bool skip_cache_lookup = false;  // compile anew and replace what is stored
};

struct Progress {
  std::string stage;  // "queued" while waiting for a worker; then `done` is the position
  uint32_t done = 0;
  uint32_t total = 0;
};
// Anything but OK cancels the call, which then returns it.
using ProgressSink = std::function<absl::Status(const Progress&)>;

struct Compiled {
  store::Entry entry;
  Origin origin = Origin::kCompiled;
};

class RpcClient {
 public:
  struct Options {
    std::string socket_path;
    std::string public_key_path;  // empty = "<socket>.pub", which the server writes
    std::chrono::milliseconds call_timeout{10'000};  // of everything but Compile
  };

  explicit RpcClient(Options options);
  ~RpcClient();
  RpcClient(const RpcClient&) = delete;
  RpcClient& operator=(const RpcClient&) = delete;

  // All: UNAVAILABLE (no server, or it went away), DEADLINE_EXCEEDED, FAILED_PRECONDITION after a
  // fork, an Interrupt's status.
  absl::StatusOr<ServerInfo> Hello(const Interrupt& interrupt);
  // NOT_FOUND = miss. DATA_LOSS, PERMISSION_DENIED: what came is not what the key's signer made.
  absl::StatusOr<store::Entry> Get(const Digest& key, const Interrupt& interrupt);
  // Besides those of Get the compiler's verdict: UNIMPLEMENTED, INVALID_ARGUMENT, INTERNAL, ...
  absl::StatusOr<Compiled> Compile(const CompileCall& call, std::chrono::milliseconds timeout,
                                   const ProgressSink& progress, const Interrupt& interrupt);
  absl::StatusOr<std::map<std::string, uint64_t>> Stats(const Interrupt& interrupt);
  absl::StatusOr<std::vector<store::Manifest>> List(uint32_t limit, const Interrupt& interrupt);
  absl::Status Shutdown(const std::string& reason, const Interrupt& interrupt);

 private:
  using Call = std::function<absl::Status(wire::CompileService::Stub&)>;

  // Runs the call on the connection there is; if that turns out to be dead, on a new one. All calls
  // may be repeated: the server answers a repeated Compile from the flight or the store.
  absl::Status WithConnection(const Call& call);
  absl::StatusOr<std::shared_ptr<Connection>> CurrentConnection(bool* reused);
  absl::StatusOr<store::PublicKey> TrustedKey() const;

  const Options options_;
  std::mutex mutex_;
  std::shared_ptr<Connection> connection_;  // guarded by mutex_; shared by the calls under way
};

}  // namespace hpu::client
