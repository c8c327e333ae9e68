// FakeRemoteCache is a Remote Execution API cache for tests. It is strict about the protocol and
// has the faults that a test gives it.
#pragma once

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "byte_stream.grpc.pb.h"
#include "recipe_store/remote_cache/remote_cache_recipe_store.h"
#include "remote_execution.grpc.pb.h"

namespace hpu::store {

class FakeRemoteCache {
 public:
  struct Options {
    std::string instance;
    int64_t max_batch_bytes = 100'000;  // 0 means no bound
    bool takes_results = true;
    bool offers_sha256 = true;
    std::string authorization;  // each request must bring it
    std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  };
  FakeRemoteCache() : FakeRemoteCache(Options()) {}
  explicit FakeRemoteCache(Options options);
  ~FakeRemoteCache();
  FakeRemoteCache(const FakeRemoteCache&) = delete;

  std::string target() const { return "127.0.0.1:" + std::to_string(port_); }
  std::string address() const { return "grpc://" + target(); }
  void Stop();
  void Start();  // starts on the same port, with what it had

  // Use calls a function with the lock of the state; calls of clients wait meanwhile.
  struct State {
    std::map<std::string, std::string> blobs;  // by hexadecimal digest
    std::map<std::string, reapi::ActionResult> results;
    std::map<std::string, int> calls;     // by name
    std::vector<std::string> violations;  // violations of the protocol by clients
    bool takes_results = true;
    bool offers_sha256 = true;
  };
  void Use(const std::function<void(State& state)>& use);
  int Calls(const std::string& name);
  std::vector<std::string> Violations();

  // The functions below are faults. They are called without a lock, so a test sets them before the
  // calls that they are for.
  std::function<grpc::Status(const std::string& call)> before;
  std::function<void(reapi::ActionResult& result)> on_result;
  std::function<void(reapi::BatchReadBlobsResponse& reply)> on_batch_read;
  std::function<void(reapi::BatchUpdateBlobsResponse& reply)> on_batch_update;
  // Returns true if it has answered.
  std::function<bool(const std::string& blob,
                     grpc::ServerWriter<google::bytestream::ReadResponse>& writer)>
      on_stream_read;

 private:
  class ActionCache;
  class Storage;
  class Streams;
  class Capabilities;

  grpc::Status Enter(const grpc::ServerContext& context, const std::string& call,
                     const std::string& instance);
  bool TooLarge(int64_t batch_bytes) const {
    return options_.max_batch_bytes > 0 && batch_bytes > options_.max_batch_bytes;
  }
  // Requires the lock of the state.
  grpc::Status Violation(const std::string& what);

  const Options options_;
  int port_ = 0;
  std::mutex mutex_;
  State state_;  // guarded by mutex_
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<grpc::Server> server_;
};

// Returns options for servers that answer: only a hang ends a call, and the first pause is 200 ms.
RemoteCacheOptions TestOptionsOf(const std::string& address);
// Returns options for servers that do not answer: a call lasts at most 300 ms.
RemoteCacheOptions ImpatientOptionsOf(const std::string& address);
std::unique_ptr<RemoteCacheRecipeStore> RemoteStoreAt(const RemoteCacheOptions& options);
std::unique_ptr<RemoteCacheRecipeStore> RemoteStoreAt(const std::string& address);

}  // namespace hpu::store
