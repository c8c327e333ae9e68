// Makes gRPC calls on the calling thread. It waits on a completion queue of its own, checks every
// 100 ms whether it must stop, and needs no other thread.
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

// The meaning of a passed deadline: a server that only has to look something up is unavailable; one
// that compiles (and reports so every 2 s) is not.
enum class Late { kServerUnavailable, kAnswer };

// When an overloaded server wants to be asked again (RESOURCE_EXHAUSTED).
std::optional<std::chrono::milliseconds> RetryHint(const absl::Status& status);

// UNAVAILABLE from the server or from the connection, and a missed deadline with
// kServerUnavailable, become statuses of type ServerUnavailable (connection.h).
class PolledCall {
 public:
  PolledCall(std::chrono::milliseconds timeout, const std::function<absl::Status()>& interrupt,
             Late late = Late::kServerUnavailable)
      : PolledCall(timeout, timeout, interrupt, late) {}
  // The call may take `left` of the `timeout` that its caller was given; errors name the latter.
  PolledCall(std::chrono::milliseconds timeout, std::chrono::milliseconds left,
             const std::function<absl::Status()>& interrupt, Late late);
  ~PolledCall();
  PolledCall(const PolledCall&) = delete;
  PolledCall& operator=(const PolledCall&) = delete;

  grpc::ClientContext* context() { return &context_; }
  grpc::CompletionQueue* queue() { return &queue_; }

  // Sends one request and receives one reply.
  template <typename Reply>
  absl::Status Unary(std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> reader, Reply* reply) {
    reader->StartCall();
    grpc::Status status;
    reader->Finish(reply, &status, Tag());
    Wait();
    return Outcome(status);
  }

  // Sends many requests and receives one reply. `next` fills a request. It returns false after the
  // last one, or on an error, which it must keep.
  template <typename Request>
  absl::Status Upload(std::unique_ptr<grpc::ClientAsyncWriter<Request>> writer,
                      const std::function<bool(Request*)>& next) {
    writer->StartCall(Tag());
    bool goes_on = Wait();
    Request request;
    while (goes_on && stopped_.ok() && next(&request)) {
      writer->Write(request, Tag());
      goes_on = Wait();  // false: the server has already answered
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

  // Sends one request and receives many replies. Anything but OK from `each` cancels the call and
  // is returned.
  template <typename Reply>
  absl::Status Stream(std::unique_ptr<grpc::ClientAsyncReader<Reply>> reader,
                      const std::function<absl::Status(const Reply&)>& each) {
    reader->StartCall(Tag());
    Wait();
    Reply reply;  // one object for all replies, so that chunks reuse its memory
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
  // Waits until the current operation is over; false if it failed. After a stop all operations end
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
  absl::Status stopped_;  // why this client cancelled the call
};

}  // namespace hpu::client
