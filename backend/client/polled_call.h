// gRPC calls on the calling thread: it waits on a completion queue of its own, looks up every 100
// ms whether it is to stop, and needs no other thread.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>

#include <chrono>
#include <functional>
#include <memory>

#include "base/status.h"

namespace hpu::client {

class PolledCall {
 public:
  PolledCall(std::chrono::milliseconds timeout, const std::function<absl::Status()>& interrupt);
  ~PolledCall();
  PolledCall(const PolledCall&) = delete;
  PolledCall& operator=(const PolledCall&) = delete;

  grpc::ClientContext* context() { return &context_; }
  grpc::CompletionQueue* queue() { return &queue_; }

  // One request, one reply.
  template <typename Reply>
  absl::Status Unary(std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> reader, Reply* reply) {
    reader->StartCall();
    grpc::Status status;
    reader->Finish(reply, &status, Tag());
    Wait();
    return Outcome(status);
  }

  // One request, many replies; anything but OK from `each` cancels the call and is returned.
  template <typename Reply>
  absl::Status Stream(std::unique_ptr<grpc::ClientAsyncReader<Reply>> reader,
                      const std::function<absl::Status(const Reply&)>& each) {
    reader->StartCall(Tag());
    Wait();
    while (true) {
      Reply reply;
      reader->Read(&reply, Tag());
      if (!Wait()) break;
      if (stopped_.ok()) Stop(each(reply));
    }
    grpc::Status status;
    reader->Finish(&status, Tag());
    Wait();
    return Outcome(status);
  }

 private:
  void* Tag() { return this; }
  // Until the one operation under way is over; false if it failed. After a stop the operations end
  // at once, because the call is cancelled.
  bool Wait();
  void Stop(absl::Status reason);
  absl::Status Outcome(const grpc::Status& status) const;

  const std::function<absl::Status()>& interrupt_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  absl::Status stopped_;  // why the call was cancelled by us
};

}  // namespace hpu::client
