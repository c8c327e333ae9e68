#include "compile_client/polled_call.h"

#include <absl/strings/numbers.h>

#include <algorithm>

#include "compile_client/connection.h"
#include "compile_client/request_id.h"
#include "proto/grpc_status.h"

namespace hpu::client {
namespace {

constexpr std::chrono::milliseconds kInterruptPoll{100};
// the payload is milliseconds as decimal text.
constexpr char kRetryAfter[] = "hpu.client.RetryAfter";
constexpr int64_t kLongestRetryMs = 60'000;

}  // namespace

PolledCall::PolledCall(std::chrono::milliseconds timeout, std::chrono::milliseconds left,
                       const std::function<absl::Status()>& interrupt, Late late)
    : interrupt_(interrupt), timeout_(timeout), late_(late), request_id_(RequestScope::Current()) {
  context_.set_deadline(std::chrono::system_clock::now() + left);
  context_.AddMetadata(kRequestIdHeader, request_id_);
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

absl::Status PolledCall::LateAnswer() const {
  if (late_ == Late::kAnswer) {
    return Error(absl::StatusCode::kDeadlineExceeded, "no program within the ", timeout_.count(),
                 " ms that compile_timeout_s gives; the server goes on and keeps what it makes");
  }
  return ServerUnavailable(Error(absl::StatusCode::kDeadlineExceeded,
                                 "the compile server did not answer within ", timeout_.count(),
                                 " ms (request ", request_id_, ")"));
}

std::optional<std::chrono::milliseconds> RetryHint(const absl::Status& status) {
  const absl::optional<absl::Cord> hint = status.GetPayload(kRetryAfter);
  int64_t milliseconds = 0;
  if (!hint.has_value() || !absl::SimpleAtoi(std::string(*hint), &milliseconds))
    return std::nullopt;
  return std::chrono::milliseconds(std::clamp<int64_t>(milliseconds, 0, kLongestRetryMs));
}

absl::Status PolledCall::Outcome(const grpc::Status& status) const {
  if (!stopped_.ok()) return stopped_;
  // This client did not cancel, so the server did because it is going away.
  if (status.error_code() == grpc::StatusCode::CANCELLED) {
    return ServerUnavailable(
        Error(absl::StatusCode::kUnavailable, "the compile server stopped during the call"));
  }
  if (status.ok()) return absl::OkStatus();
  absl::Status outcome = FromGrpc(status);
  // A miss needs no explanation. For everything else the server's log has more, under this request
  // id.
  if (!absl::IsNotFound(outcome)) {
    outcome = Error(outcome.code(), outcome.message(), " (request ", request_id_, ")");
  }
  const auto& trailers = context_.GetServerTrailingMetadata();
  if (const auto hint = trailers.find("grpc-retry-pushback-ms");
      absl::IsResourceExhausted(outcome) && hint != trailers.end()) {
    outcome.SetPayload(kRetryAfter,
                       absl::Cord(std::string(hint->second.data(), hint->second.size())));
  }
  if (absl::IsUnavailable(outcome)) return ServerUnavailable(std::move(outcome));
  if (absl::IsDeadlineExceeded(outcome)) return LateAnswer();
  return outcome;
}

}  // namespace hpu::client
