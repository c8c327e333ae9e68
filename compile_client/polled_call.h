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
#include <optional>
#include <string>

#include "base/status.h"

namespace hpu::client {

// What it means that the deadline passes: a server that only has to look something up is not there;
// one that compiles (and says so every 2 s) is.
enum class Late { kServerUnavailable, kAnswer };

// When a server that has too much to do wants to be asked again (RESOURCE_EXHAUSTED).
std::optional<std::chrono::milliseconds> RetryHint(const absl::Status& status);

// UNAVAILABLE from the server or on the way to it, and kServerUnavailable's deadline, are statuses
// of type ServerUnavailable (connection.h).
class PolledCall {
 public:
  PolledCall(std::chrono::milliseconds timeout, const std::function<absl::Status()>& interrupt,
             Late late = Late::kServerUnavailable);
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

  // Many requests, one reply. `next` fills a request; false after the last one, or on an error,
  // which it keeps.
  template <typename Request>
  absl::Status Upload(std::unique_ptr<grpc::ClientAsyncWriter<Request>> writer,
                      const std::function<bool(Request*)>& next) {
    writer->StartCall(Tag());
    bool goes_on = Wait();
    Request request;
    while (goes_on && stopped_.ok() && next(&request)) {
      writer->Write(request, Tag());
      goes_on = Wait();  // false: the server has answered already
    }
    if (goes_on) {
      writer->WritesDone(Tag());
      Wait();
    }
    grpc::Status status;
    writer->Finish(&status, Tag());
    Wait();
    return Outcome(status);
  }

  // One request, many replies; anything but OK from `each` cancels the call and is returned.
  template <typename Reply>
  absl::Status Stream(std::unique_ptr<grpc::ClientAsyncReader<Reply>> reader,
                      const std::function<absl::Status(const Reply&)>& each) {
    reader->StartCall(Tag());
    Wait();
    Reply reply;  // one for all, so that chunks reuse its memory
    while (true) {
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
  absl::Status LateAnswer() const;

  const std::function<absl::Status()>& interrupt_;
  const std::chrono::milliseconds timeout_;
  const Late late_;
  const std::string request_id_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  absl::Status stopped_;  // why the call was cancelled by us
};

}  // namespace hpu::client
