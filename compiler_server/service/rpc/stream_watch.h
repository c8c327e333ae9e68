// Watches for streams whose clients have stopped reading. Each holds a thread and gRPC's buffers,
// so a stream is given up after a time in which its client took nothing.
#pragma once

#include <grpcpp/server_context.h>

#include <chrono>
#include <mutex>
#include <set>

namespace hpu::server {

class StreamWatch {
 public:
  using Clock = std::chrono::steady_clock;

  // One stream while it is being sent. The context must live longer.
  class Stream {
   public:
    Stream(StreamWatch* watch, grpc::ServerContext* context);
    ~Stream();
    Stream(const Stream&) = delete;
    // The client took a message.
    void Progressed();

   private:
    friend class StreamWatch;
    StreamWatch* const watch_;
    grpc::ServerContext* const context_;
    Clock::time_point last_;  // guarded by watch_->mutex_
  };

  // Cancels the streams that have not progressed for `limit`, and returns their number.
  size_t CancelStalled(std::chrono::milliseconds limit);

 private:
  std::mutex mutex_;
  std::set<Stream*> streams_;  // guarded by mutex_
};

}  // namespace hpu::server
