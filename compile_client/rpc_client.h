// The calls of the compile protocol. Every call has a deadline, can be interrupted, and returns
// only what was verified. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/cached_file.h"
#include "compile_client/polled_call.h"
#include "compile_client/program_assembler.h"
#include "compile_client/server_set.h"
#include "recipe_store/recipe_store.h"
#include "recipe_store/signing/keyring.h"

namespace hpu::client {

// Called every 100 ms while a call waits. Anything but OK cancels the call, which then returns it.
using Interrupt = std::function<absl::Status()>;

struct ServerInfo {
  std::string build_id;
  uint32_t protocol_version = 0;
  pid_t pid = 0;
  std::string upstream;  // the servers that it asks, as ToText(endpoints)
  std::string config_file;
  bool memory_only = false;  // no program that it compiles outlives it
};

enum class Origin { kCompiled, kCoalesced, kStore };

struct CompileCall {
  std::string graph;  // the container of a captured graph
  store::OptionList options;
  std::string device_kind;
  std::string isa_level;
  bool skip_cache_lookup = false;  // compile again and replace what is stored
  std::optional<store::FrontEndKey> front_end;
  bool warm_up = false;  // nobody waits for it now
  bool frozen = false;   // return FAILED_PRECONDITION and do not compile
};

struct Garbage {
  uint64_t removed = 0;
  uint64_t bytes_before = 0;
  uint64_t bytes_after = 0;
};

// One program that the server has verified.
struct VerifiedProgram {
  uint64_t done = 0;
  uint64_t total = 0;
  Digest content_key{};
  std::string problem;  // empty: none
};
// Anything but OK cancels the call, which then returns it.
using VerifySink = std::function<absl::Status(const VerifiedProgram&)>;

// A program as its signers made it.
struct Exported {
  store::SignedRecord manifest;
  std::vector<store::Blob> blobs;
  std::vector<store::SignedRecord> aliases;
};

// A stored program with the front-end keys by which the caller's tenant knows it.
struct Listed {
  store::Manifest manifest;
  std::vector<store::Alias> aliases;
  uint64_t hits = 0;  // since the server started
  bool pinned = false;
  bool upstream = false;  // it is on a server that this server asks
};

struct ListQuery {
  uint32_t limit = 0;     // of the page; 0 = as many as the server puts into one
  uint32_t upstream = 0;  // how many servers upstream to look
  std::optional<store::ListPosition> after;
};
struct ListPage {
  std::vector<Listed> programs;             // newest first
  std::optional<store::ListPosition> next;  // empty at the end of the list
};

struct Progress {
  std::string stage;  // "queued" while waiting for a worker; then `done` is the position
  uint32_t done = 0;
  uint32_t total = 0;
};
// Anything but OK cancels the call, which then returns it.
using ProgressSink = std::function<absl::Status(const Progress&)>;

// Returns the keyring of trusted signers, as it is at the time of a call.
using KeyringSource = std::function<absl::StatusOr<std::shared_ptr<const store::Keyring>>()>;

// A program that was found by a key. `alias` is set if it was a front-end key.
struct Fetched {
  store::Entry entry;
  std::optional<store::AliasRecord> alias;
};

struct Compiled {
  store::Entry entry;
  Origin origin = Origin::kCompiled;
};

// True if this is the compiler's verdict on the graph, perhaps remembered by the server; then the
// code has the meaning of ARCHITECTURE.md.
bool IsVerdict(const absl::Status& status);

class RpcClient {
 public:
  struct Options {
    ServerSet::Options servers;
    KeyringSource trusted;
    std::chrono::milliseconds call_timeout{10'000};  // for every call except Compile
    // Servers with another compiler refuse Get and Compile with FAILED_PRECONDITION. If it is
    // empty, every compiler is accepted.
    std::string compiler_build_id;
    int busy_retries = 3;  // of Compile, each at the time that the busy server names
  };

  explicit RpcClient(Options options)
      : options_(std::move(options)),
        servers_(options_.servers),
        bearer_(options_.servers.access.token_file,
                [path = options_.servers.access.token_file] { return ReadBearer(path); }) {}

  // All calls return ServerUnavailable (connection.h: no server, it went away, no answer in time, a
  // fork) or the status of an Interrupt. Hello also returns FAILED_PRECONDITION for another
  // protocol version.
  absl::StatusOr<ServerInfo> Hello(const Interrupt& interrupt);
  // Returns NOT_FOUND for a miss, and DATA_LOSS or PERMISSION_DENIED if the answer is not what the
  // signer of the key made.
  absl::StatusOr<Fetched> Get(const ByFrontEndKey& key, const Interrupt& interrupt);
  absl::StatusOr<Fetched> Get(const ByContentKey& key, const Interrupt& interrupt);
  // Besides the errors of Get, returns the compiler's verdict, with any code; DEADLINE_EXCEEDED
  // also if the program did not come within `timeout`; and RESOURCE_EXHAUSTED if the server was
  // busy at each of the times that it named. A returned program was compiled from this graph and
  // these options.
  absl::StatusOr<Compiled> Compile(const CompileCall& call, std::chrono::milliseconds timeout,
                                   const ProgressSink& progress, const Interrupt& interrupt);
  absl::StatusOr<std::map<std::string, uint64_t>> Stats(const Interrupt& interrupt);
  // Returns one page; ProgramList (program_list.h) asks for one after the other. Returns NOT_FOUND
  // if there is no server so far upstream, or if it does not answer.
  absl::StatusOr<ListPage> List(const ListQuery& query, const Interrupt& interrupt);
  absl::Status Shutdown(const std::string& reason, const Interrupt& interrupt);

  // Calls for administrators (rpc_administration.cc). All return PERMISSION_DENIED to others, and
  // UNIMPLEMENTED if the server is older. Pin returns NOT_FOUND if there is no such program.
  absl::Status Pin(const Digest& content_key, bool pinned, const Interrupt& interrupt);
  absl::StatusOr<Garbage> CollectGarbage(uint64_t max_bytes, std::chrono::seconds unused,
                                         std::chrono::milliseconds timeout,
                                         const Interrupt& interrupt);
  absl::Status Verify(std::chrono::milliseconds timeout, const VerifySink& each,
                      const Interrupt& interrupt);
  // Returns the number of aliases that were stored. Returns INVALID_ARGUMENT if there is no
  // manifest, PERMISSION_DENIED also if the signing key is not trusted by the server, and DATA_LOSS
  // if the blobs do not match the manifest.
  absl::StatusOr<uint64_t> Import(const Exported& program, std::chrono::milliseconds timeout,
                                  const Interrupt& interrupt);

 private:
  using Call = std::function<absl::Status(wire::CompileService::Stub&)>;

  // Runs the call on a working server and, if that server fails, on the next one. All calls may be
  // repeated: the server answers a repeated Compile from the in-flight compilation or the store.
  absl::Status WithServer(const Call& call);
  // True if the server's answer does not help because another compiler is wanted, or because the
  // server does not know us or is not trusted: another server may do better.
  bool IsOfNoUse(const absl::Status& status) const;
  // Sends who calls.
  absl::Status Introduce(PolledCall& call);
  template <typename Request, typename Reply>
  using Prepare = std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> (
      wire::CompileService::Stub::*)(grpc::ClientContext*, const Request&, grpc::CompletionQueue*);
  template <typename Request, typename Reply>
  absl::Status Unary(Prepare<Request, Reply> prepare, const Request& request, Reply* reply,
                     const Interrupt& interrupt) {
    return WithServer([&](wire::CompileService::Stub& stub) -> absl::Status {
      PolledCall call(options_.call_timeout, interrupt);
      RETURN_IF_ERROR(Introduce(call));
      return call.Unary((stub.*prepare)(call.context(), request, call.queue()), reply);
    });
  }
  absl::StatusOr<Fetched> Fetch(const wire::GetProgramRequest& request, const Wanted& wanted,
                                const Interrupt& interrupt);

  const Options options_;
  ServerSet servers_;
  CachedFile<std::string> bearer_;  // the token, as call metadata
};

// For the server at a unix socket. Its keyring is "<socket>.pub" unless a path is given.
RpcClient::Options LocalServer(const std::string& socket_path,
                               const std::string& keyring_path = "");

}  // namespace hpu::client
