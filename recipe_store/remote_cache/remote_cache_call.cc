// The statuses of RemoteCacheCall, and its requests of one message each.
#include "recipe_store/remote_cache/remote_cache_call.h"

#include <algorithm>
#include <string_view>

namespace hpu::store {
namespace {

// One message asks for at most so many digests, about 300 KiB.
constexpr size_t kMaxDigestsAsked = 4096;
constexpr size_t kMaxToldBytes = 200;

// Shortens what a server says and removes control characters, because it goes into logs.
std::string Told(const std::string& text) {
  std::string told = text.substr(0, kMaxToldBytes);
  std::ranges::replace_if(told, [](char c) { return c < ' ' || c > '~'; }, '?');
  return told;
}

// Returns true for an answer to the request, which is no failure of the server. A client that may
// not write, or finds no room, may go on reading.
bool IsAnswer(grpc::StatusCode code, bool writes) {
  switch (code) {
    case grpc::StatusCode::OK:
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::OUT_OF_RANGE:
    case grpc::StatusCode::ALREADY_EXISTS:
    case grpc::StatusCode::ABORTED:
      return true;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::UNIMPLEMENTED:
      return writes;
    default:
      return false;
  }
}

bool MayNotWrite(grpc::StatusCode code) {
  return code == grpc::StatusCode::PERMISSION_DENIED || code == grpc::StatusCode::UNAUTHENTICATED ||
         code == grpc::StatusCode::UNIMPLEMENTED;
}

// Returns the end of the batch that begins with items[begin]. One item alone is never too large.
template <typename Items, typename SizeOf>
size_t BatchEnd(const Items& items, size_t begin, uint64_t max_bytes, const SizeOf& size_of) {
  uint64_t bytes = 0;
  size_t end = begin;
  while (end < items.size() && end - begin < kMaxDigestsAsked) {
    bytes += size_of(items[end]);
    if (bytes > max_bytes) break;
    ++end;
  }
  return end;
}

}  // namespace

std::unique_ptr<grpc::ClientContext> RemoteCacheCall::NewContext() const {
  auto context = std::make_unique<grpc::ClientContext>();
  context->set_deadline(std::chrono::system_clock::now() +
                        (deadline_ - std::chrono::steady_clock::now()));
  if (!session_->bearer.empty()) context->AddMetadata("authorization", session_->bearer);
  return context;
}

absl::Status RemoteCacheCall::Judge(const grpc::Status& status, const char* request, bool writes) {
  if (status.ok()) return absl::OkStatus();
  const grpc::StatusCode code = status.error_code();
  if (!IsAnswer(code, writes)) {
    lost_ = true;
    late_ |= code == grpc::StatusCode::DEADLINE_EXCEEDED;
  }
  if (writes && MayNotWrite(code)) session_->takes_results = false;
  return Error(code == grpc::StatusCode::NOT_FOUND ? absl::StatusCode::kNotFound
                                                   : absl::StatusCode::kUnavailable,
               "remote cache ", session_->server, ": ", request, ": code ", static_cast<int>(code),
               ", ", Told(status.error_message()));
}

absl::StatusOr<reapi::ServerCapabilities> RemoteCacheCall::GetCapabilities() {
  reapi::GetCapabilitiesRequest request;
  request.set_instance_name(session_->instance);
  reapi::ServerCapabilities reply;
  const auto stub = reapi::Capabilities::NewStub(session_->channel);
  const auto context = NewContext();
  RETURN_IF_ERROR(
      Judge(stub->GetCapabilities(context.get(), request, &reply), "GetCapabilities", false));
  return reply;
}

absl::StatusOr<reapi::ActionResult> RemoteCacheCall::GetActionResult(const BlobRef& action) {
  reapi::GetActionResultRequest request;
  request.set_instance_name(session_->instance);
  *request.mutable_action_digest() = ToRemote(action);
  request.add_inline_output_files(kRecordPath);
  reapi::ActionResult reply;
  const auto stub = reapi::ActionCache::NewStub(session_->channel);
  const auto context = NewContext();
  RETURN_IF_ERROR(
      Judge(stub->GetActionResult(context.get(), request, &reply), "GetActionResult", false));
  traffic_->bytes_read += reply.ByteSizeLong();
  return reply;
}

absl::Status RemoteCacheCall::UpdateActionResult(const BlobRef& action,
                                                 const reapi::ActionResult& result) {
  reapi::UpdateActionResultRequest request;
  request.set_instance_name(session_->instance);
  *request.mutable_action_digest() = ToRemote(action);
  *request.mutable_action_result() = result;
  traffic_->bytes_written += request.ByteSizeLong();
  reapi::ActionResult reply;
  const auto stub = reapi::ActionCache::NewStub(session_->channel);
  const auto context = NewContext();
  return Judge(stub->UpdateActionResult(context.get(), request, &reply), "UpdateActionResult",
               true);
}

absl::StatusOr<std::vector<BlobRef>> RemoteCacheCall::FindMissing(
    const std::vector<BlobRef>& refs) {
  std::map<Digest, BlobRef> missing;
  const auto stub = reapi::ContentAddressableStorage::NewStub(session_->channel);
  for (size_t begin = 0; begin < refs.size(); begin += kMaxDigestsAsked) {
    const size_t end = std::min(begin + kMaxDigestsAsked, refs.size());
    reapi::FindMissingBlobsRequest request;
    request.set_instance_name(session_->instance);
    std::map<Digest, BlobRef> asked;
    for (size_t i = begin; i < end; ++i) {
      *request.add_blob_digests() = ToRemote(refs[i]);
      asked[refs[i].digest] = refs[i];
    }
    reapi::FindMissingBlobsResponse reply;
    const auto context = NewContext();
    RETURN_IF_ERROR(
        Judge(stub->FindMissingBlobs(context.get(), request, &reply), "FindMissingBlobs", true));
    for (const reapi::Digest& digest : reply.missing_blob_digests()) {
      const std::optional<BlobRef> ref = FromRemote(digest);
      if (ref && asked.contains(ref->digest)) missing[ref->digest] = asked[ref->digest];
    }
  }
  std::vector<BlobRef> found;
  for (const auto& [digest, ref] : missing) found.push_back(ref);
  return found;
}

absl::StatusOr<std::map<Digest, Blob>> RemoteCacheCall::Read(const std::vector<BlobRef>& refs) {
  std::map<Digest, Blob> found;
  std::vector<BlobRef> small;
  for (const BlobRef& ref : refs) {
    if (ref.size_bytes <= session_->max_batch_bytes) {
      small.push_back(ref);
    } else {
      RETURN_IF_ERROR(ReadStream(ref, found));
    }
  }
  for (size_t begin = 0; begin < small.size();) {
    const size_t end = BatchEnd(small, begin, session_->max_batch_bytes,
                                [](const BlobRef& ref) { return ref.size_bytes; });
    RETURN_IF_ERROR(ReadBatch(std::span(small).subspan(begin, end - begin), found));
    begin = end;
  }
  return found;
}

absl::Status RemoteCacheCall::ReadBatch(std::span<const BlobRef> refs,
                                        std::map<Digest, Blob>& found) {
  reapi::BatchReadBlobsRequest request;
  request.set_instance_name(session_->instance);
  for (const BlobRef& ref : refs) *request.add_digests() = ToRemote(ref);
  reapi::BatchReadBlobsResponse reply;
  const auto stub = reapi::ContentAddressableStorage::NewStub(session_->channel);
  const auto context = NewContext();
  RETURN_IF_ERROR(
      Judge(stub->BatchReadBlobs(context.get(), request, &reply), "BatchReadBlobs", false));
  std::map<Digest, const reapi::BatchReadBlobsResponse::Response*> answers;
  for (const auto& response : reply.responses()) {
    traffic_->bytes_read += response.data().size();
    if (const auto ref = FromRemote(response.digest())) answers[ref->digest] = &response;
  }
  for (const BlobRef& ref : refs) {
    const auto answer = answers.find(ref.digest);
    if (answer == answers.end()) {
      return NotFound("the remote cache does not answer for blob ", ToHex(ref.digest));
    }
    const int32_t code = answer->second->status().code();
    if (code == static_cast<int32_t>(grpc::StatusCode::NOT_FOUND)) {
      return NotFound("the remote cache has no blob ", ToHex(ref.digest));
    }
    if (code != 0) {
      return Error(absl::StatusCode::kUnavailable, "remote cache ", session_->server, ": blob ",
                   ToHex(ref.digest), ": code ", code, ", ",
                   Told(answer->second->status().message()));
    }
    RETURN_IF_ERROR(Keep(ref, ToBytes(answer->second->data()), found));
  }
  return absl::OkStatus();
}

absl::Status RemoteCacheCall::Keep(const BlobRef& ref, Bytes bytes, std::map<Digest, Blob>& found) {
  if (bytes.size() != ref.size_bytes || Sha256(bytes) != ref.digest) {
    damaged_.push_back(ref.digest);
    return DataLoss("remote cache ", session_->server, ": blob ", ToHex(ref.digest), " came as ",
                    bytes.size(), " bytes of ", ref.size_bytes, ", with another digest");
  }
  found[ref.digest] = std::make_shared<const Bytes>(std::move(bytes));
  return absl::OkStatus();
}

absl::Status RemoteCacheCall::Write(const std::vector<Upload>& uploads) {
  std::vector<Upload> small;
  for (const Upload& upload : uploads) {
    if (upload.ref.size_bytes <= session_->max_batch_bytes) {
      small.push_back(upload);
    } else {
      RETURN_IF_ERROR(WriteStream(upload));
    }
  }
  for (size_t begin = 0; begin < small.size();) {
    const size_t end = BatchEnd(small, begin, session_->max_batch_bytes,
                                [](const Upload& upload) { return upload.ref.size_bytes; });
    RETURN_IF_ERROR(WriteBatch(std::span(small).subspan(begin, end - begin)));
    begin = end;
  }
  return absl::OkStatus();
}

absl::Status RemoteCacheCall::WriteBatch(std::span<const Upload> uploads) {
  reapi::BatchUpdateBlobsRequest request;
  request.set_instance_name(session_->instance);
  for (const Upload& upload : uploads) {
    auto* const added = request.add_requests();
    *added->mutable_digest() = ToRemote(upload.ref);
    added->set_data(upload.bytes->data(), upload.bytes->size());
    traffic_->bytes_written += upload.bytes->size();
  }
  reapi::BatchUpdateBlobsResponse reply;
  const auto stub = reapi::ContentAddressableStorage::NewStub(session_->channel);
  const auto context = NewContext();
  RETURN_IF_ERROR(
      Judge(stub->BatchUpdateBlobs(context.get(), request, &reply), "BatchUpdateBlobs", true));
  std::map<Digest, const google::rpc::Status*> answers;
  for (const auto& response : reply.responses()) {
    if (const auto ref = FromRemote(response.digest())) answers[ref->digest] = &response.status();
  }
  for (const Upload& upload : uploads) {
    const auto answer = answers.find(upload.ref.digest);
    if (answer != answers.end() && answer->second->code() == 0) continue;
    return Error(absl::StatusCode::kUnavailable, "remote cache ", session_->server, ": blob ",
                 ToHex(upload.ref.digest), " not taken: ",
                 answer == answers.end() ? "no answer" : Told(answer->second->message()));
  }
  return absl::OkStatus();
}

}  // namespace hpu::store
