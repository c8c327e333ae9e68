// The compile protocol as calls: every call has a deadline, can be interrupted, and gives nothing
// that was not verified. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backend/client/connection.h"
#include "backend/client/program_assembler.h"
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

enum class Origin { kCompiled, kCoalesced, kStore };

// By what a front end will ask for the program next time.
struct FrontEndKey {
  Digest key{};
  std::vector<store::KeyFactor> factors;
  std::string label;
};

struct CompileCall {
  std::string graph;  // a captured graph's container
  store::OptionList options;
  std::string device_kind;
  std::string isa_level;
  bool skip_cache_lookup = false;  // compile anew and replace what is stored
  std::optional<FrontEndKey> front_end;
};

// A stored program and the front-end keys of the caller's tenant that name it.
struct Listed {
  store::Manifest manifest;
  std::vector<store::Alias> aliases;
  uint64_t hits = 0;  // since the server started
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

  // All: ServerUnavailable (connection.h: no server, it went away, no answer in time, a fork), an
  // Interrupt's status. Hello also FAILED_PRECONDITION: another protocol version.
  absl::StatusOr<ServerInfo> Hello(const Interrupt& interrupt);
  // NOT_FOUND = miss. DATA_LOSS, PERMISSION_DENIED: what came is not what the key's signer made.
  absl::StatusOr<store::Entry> Get(const ByFrontEndKey& key, const Interrupt& interrupt);
  absl::StatusOr<store::Entry> Get(const ByContentKey& key, const Interrupt& interrupt);
  // Besides those of Get the compiler's verdict, with any code; DEADLINE_EXCEEDED is also a program
  // that did not come within `timeout`. What is let out was compiled from this graph and these
  // options.
  absl::StatusOr<Compiled> Compile(const CompileCall& call, std::chrono::milliseconds timeout,
                                   const ProgressSink& progress, const Interrupt& interrupt);
  absl::StatusOr<std::map<std::string, uint64_t>> Stats(const Interrupt& interrupt);
  absl::StatusOr<std::vector<Listed>> List(uint32_t limit, const Interrupt& interrupt);
  absl::Status Shutdown(const std::string& reason, const Interrupt& interrupt);

 private:
  using Call = std::function<absl::Status(wire::CompileService::Stub&)>;

  // Runs the call on the connection there is; if that turns out to be dead, on a new one. All calls
  // may be repeated: the server answers a repeated Compile from the flight or the store.
  absl::Status WithConnection(const Call& call);
  absl::StatusOr<std::shared_ptr<Connection>> CurrentConnection(bool* reused);
  absl::StatusOr<store::PublicKey> TrustedKey() const;
  absl::StatusOr<store::Entry> Fetch(const wire::GetProgramRequest& request, const Wanted& wanted,
                                     const Interrupt& interrupt);

  const Options options_;
  std::mutex mutex_;
  std::shared_ptr<Connection> connection_;  // guarded by mutex_; shared by the calls under way
};

}  // namespace hpu::client
