#include "backend/client/polled_call.h"

#include "proto/grpc_status.h"

namespace hpu::client {
namespace {

constexpr std::chrono::milliseconds kInterruptPoll{100};

}  // namespace

PolledCall::PolledCall(std::chrono::milliseconds timeout,
                       const std::function<absl::Status()>& interrupt)
    : interrupt_(interrupt) {
  context_.set_deadline(std::chrono::system_clock::now() + timeout);
}

PolledCall::~PolledCall() {
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

bool PolledCall::Wait() {
  while (true) {
    void* tag = nullptr;
    bool ok = false;
    const auto next =
        queue_.AsyncNext(&tag, &ok, std::chrono::system_clock::now() + kInterruptPoll);
    if (next == grpc::CompletionQueue::GOT_EVENT) return ok;
    if (stopped_.ok()) Stop(interrupt_());
  }
}

void PolledCall::Stop(absl::Status reason) {
  if (reason.ok()) return;
  stopped_ = std::move(reason);
  context_.TryCancel();
}

absl::Status PolledCall::Outcome(const grpc::Status& status) const {
  if (!stopped_.ok()) return stopped_;
  // Not by us, so by a server that is going away.
  if (status.error_code() == grpc::StatusCode::CANCELLED) {
    return Error(absl::StatusCode::kUnavailable, "the compile server stopped during the call");
  }
  return FromGrpc(status);
}

}  // namespace hpu::client
