// The gRPC face of the server: translates, bounds, answers. Compiling, storing and stopping are
// done by what it is given.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>

#include "compile_service.grpc.pb.h"
#include "compiler_server/service/compile_queue.h"
#include "compiler_server/service/negative_cache.h"
#include "recipe_store/factory.h"

namespace hpu::server {

inline constexpr uint32_t kProtocolVersion = 1;
inline constexpr size_t kMaxGraphBytes = 64 << 20;
inline constexpr int kMaxRequestBytes = 68 << 20;
inline constexpr size_t kChunkBytes = 1 << 20;
inline constexpr std::chrono::seconds kHeartbeat{2};

class CompileServiceImpl final : public wire::CompileService::Service {
 public:
  using StopFunction = std::function<void(const std::string& reason)>;

  // Takes over the opened store. `request_stop` is called by the Shutdown RPC.
  CompileServiceImpl(std::string build_id, store::OpenedStore opened, QueueOptions queue_options,
                     StopFunction request_stop);

  grpc::Status Hello(grpc::ServerContext* context, const wire::HelloRequest* request,
                     wire::HelloReply* reply) override;
  grpc::Status GetProgram(grpc::ServerContext* context, const wire::GetProgramRequest* request,
                          grpc::ServerWriter<wire::ProgramPart>* writer) override;
  grpc::Status Compile(grpc::ServerContext* context, const wire::CompileRequest* request,
                       grpc::ServerWriter<wire::CompileEvent>* writer) override;
  grpc::Status GetStats(grpc::ServerContext* context, const wire::StatsRequest* request,
                        wire::StatsReply* reply) override;
  grpc::Status List(grpc::ServerContext* context, const wire::ListRequest* request,
                    grpc::ServerWriter<wire::ListEntry>* writer) override;
  grpc::Status Shutdown(grpc::ServerContext* context, const wire::ShutdownRequest* request,
                        wire::ShutdownReply* reply) override;

  // Lets running compilations finish for up to `grace`, ends all waiting requests, flushes the
  // store.
  void Stop(std::chrono::milliseconds grace);

  // Time since the last request ended; zero while one is under way or a compilation runs.
  std::chrono::milliseconds idle_time() const;

  const store::PublicKey& public_key() const { return signing_key_.public_key(); }

 private:
  class Activity;

  QueueHooks MakeHooks();
  // What the store has under the key, if this compiler made it.
  absl::StatusOr<store::Entry> LookUp(const Digest& key);
  absl::StatusOr<store::Entry> Publish(const CompileJob& job, CompileOutput output,
                                       std::chrono::microseconds duration);
  grpc::Status Follow(CompileQueue::Seat& seat, grpc::ServerContext* context,
                      grpc::ServerWriter<wire::CompileEvent>* writer);

  const std::string build_id_;
  const store::SigningKey signing_key_;
  const std::unique_ptr<store::RecipeStore> store_;
  const bool persistent_;  // programs survive this process
  const StopFunction request_stop_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();

  NegativeCache negative_cache_;
  std::atomic<int> active_{0};
  std::atomic<std::chrono::steady_clock::rep> last_active_;
  std::atomic<uint64_t> compile_requests_{0};
  std::atomic<uint64_t> store_hits_{0};
  std::atomic<uint64_t> negative_hits_{0};
  std::atomic<uint64_t> cancelled_{0};

  CompileQueue queue_;  // last: its threads use the members above
};

}  // namespace hpu::server
