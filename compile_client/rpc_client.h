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

#include "base/cached_file.h"
#include "compile_client/polled_call.h"
#include "compile_client/program_assembler.h"
#include "compile_client/server_set.h"
#include "recipe_store/recipe_store.h"
#include "recipe_store/signing/keyring.h"

namespace hpu::client {

// Asked every 100 ms while a call waits; anything but OK cancels the call, which then returns it.
using Interrupt = std::function<absl::Status()>;

struct ServerInfo {
  std::string build_id;
  uint32_t protocol_version = 0;
  pid_t pid = 0;
  std::string upstream;  // the servers that it asks, as ToText(endpoints)
  std::string config_file;
  bool memory_only = false;  // it keeps no program beyond its own life
};

enum class Origin { kCompiled, kCoalesced, kStore };

struct CompileCall {
  std::string graph;  // a captured graph's container
  store::OptionList options;
  std::string device_kind;
  std::string isa_level;
  bool skip_cache_lookup = false;  // compile anew and replace what is stored
  std::optional<store::FrontEndKey> front_end;
  bool warm_up = false;  // nobody waits for it now
  bool frozen = false;   // FAILED_PRECONDITION in place of compiling
};

struct Garbage {
  uint64_t removed = 0;
  uint64_t bytes_before = 0;
  uint64_t bytes_after = 0;
};

// One program that the server read again.
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

// A stored program and the front-end keys of the caller's tenant that name it.
struct Listed {
  store::Manifest manifest;
  std::vector<store::Alias> aliases;
  uint64_t hits = 0;  // since the server started
  bool pinned = false;
  bool upstream = false;  // a server that the server asks has it
};

struct ListQuery {
  uint32_t limit = 0;     // of the page; 0 = as many as the server gives in one
  uint32_t upstream = 0;  // how many servers further to look
  std::optional<store::ListPosition> after;
};
struct ListPage {
  std::vector<Listed> programs;             // newest first
  std::optional<store::ListPosition> next;  // nothing: that was all
};

struct Progress {
  std::string stage;  // "queued" while waiting for a worker; then `done` is the position
  uint32_t done = 0;
  uint32_t total = 0;
};
// Anything but OK cancels the call, which then returns it.
using ProgressSink = std::function<absl::Status(const Progress&)>;

// Whose signatures are believed, as it is at the time of a call.
using KeyringSource = std::function<absl::StatusOr<std::shared_ptr<const store::Keyring>>()>;

// A program found by a key; `alias` where it was a front-end key.
struct Fetched {
  store::Entry entry;
  std::optional<store::AliasRecord> alias;
};

struct Compiled {
  store::Entry entry;
  Origin origin = Origin::kCompiled;
};

// True if this is what the compiler, or the server's memory of it, said of the graph; then the code
// has the meaning of ARCHITECTURE.md.
bool IsVerdict(const absl::Status& status);

class RpcClient {
 public:
  struct Options {
    ServerSet::Options servers;
    KeyringSource trusted;
    std::chrono::milliseconds call_timeout{10'000};  // of everything but Compile
    // Servers with another compiler refuse Get and Compile, with FAILED_PRECONDITION; empty: any.
    std::string compiler_build_id;
    int busy_retries = 3;  // of Compile, each when the busy server says
  };

  explicit RpcClient(Options options)
      : options_(std::move(options)),
        servers_(options_.servers),
        bearer_(options_.servers.access.token_file,
                [path = options_.servers.access.token_file] { return ReadBearer(path); }) {}

  // All: ServerUnavailable (connection.h: no server, it went away, no answer in time, a fork), an
  // Interrupt's status. Hello also FAILED_PRECONDITION: another protocol version.
  absl::StatusOr<ServerInfo> Hello(const Interrupt& interrupt);
  // NOT_FOUND = miss. DATA_LOSS, PERMISSION_DENIED: what came is not what the key's signer made.
  absl::StatusOr<Fetched> Get(const ByFrontEndKey& key, const Interrupt& interrupt);
  absl::StatusOr<Fetched> Get(const ByContentKey& key, const Interrupt& interrupt);
  // Besides those of Get the compiler's verdict, with any code; DEADLINE_EXCEEDED is also a program
  // that did not come within `timeout`; RESOURCE_EXHAUSTED: the server is busy, and was so each of
  // the times that it named. What is let out was compiled from this graph and these options.
  absl::StatusOr<Compiled> Compile(const CompileCall& call, std::chrono::milliseconds timeout,
                                   const ProgressSink& progress, const Interrupt& interrupt);
  absl::StatusOr<std::map<std::string, uint64_t>> Stats(const Interrupt& interrupt);
  // A page; ProgramList (program_list.h) asks for one after the other. NOT_FOUND: there is no
  // server so far upstream, or it does not answer.
  absl::StatusOr<ListPage> List(const ListQuery& query, const Interrupt& interrupt);
  absl::Status Shutdown(const std::string& reason, const Interrupt& interrupt);

  // For administrators (rpc_administration.cc). All: PERMISSION_DENIED to others; UNIMPLEMENTED: an
  // older server.
  // NOT_FOUND: no such program.
  absl::Status Pin(const Digest& content_key, bool pinned, const Interrupt& interrupt);
  absl::StatusOr<Garbage> CollectGarbage(uint64_t max_bytes, std::chrono::seconds unused,
                                         std::chrono::milliseconds timeout,
                                         const Interrupt& interrupt);
  absl::Status Verify(std::chrono::milliseconds timeout, const VerifySink& each,
                      const Interrupt& interrupt);
  // The number of aliases that were filed. INVALID_ARGUMENT: no manifest. PERMISSION_DENIED: also
  // signed by a key that the server does not trust. DATA_LOSS: the blobs are not the manifest's.
  absl::StatusOr<uint64_t> Import(const Exported& program, std::chrono::milliseconds timeout,
                                  const Interrupt& interrupt);

 private:
  using Call = std::function<absl::Status(wire::CompileService::Stub&)>;

  // Runs the call on a server that works; if it turns out that it does not, on the next one. All
  // calls may be repeated: the server answers a repeated Compile from the flight or the store.
  absl::Status WithServer(const Call& call);
  // Where one compiler is wanted: another server may have it, know us, or sign with a key that is
  // trusted.
  bool IsOfNoUse(const absl::Status& status) const;
  // Tells the server who asks.
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
  CachedFile<std::string> bearer_;  // the token's metadata
};

// Of the server at a unix socket, whose keyring lies in "<socket>.pub" unless a path is given.
RpcClient::Options LocalServer(const std::string& socket_path,
                               const std::string& keyring_path = "");

}  // namespace hpu::client
