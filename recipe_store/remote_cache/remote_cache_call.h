// One call of the store to a Remote Execution API cache: the requests that it makes, all within one
// deadline, and what became of the server while it made them.
//
// What the server says is bounded, checked for its form, and cut short where it is too long or too
// late. Statuses are the store's: NOT_FOUND, it has no such thing; DATA_LOSS, it answered something
// else than what was put; UNAVAILABLE, everything else.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <vector>

#include "byte_stream.grpc.pb.h"
#include "proto/channel_access.h"
#include "recipe_store/recipe_store.h"
#include "recipe_store/remote_cache/remote_cache_actions.h"
#include "remote_execution.grpc.pb.h"

namespace hpu::store {

// gRPC's own bound of a message, which servers and other clients have unless told otherwise: what
// is sent to us keeps it too. Parsed, hostile bytes take several times as much.
inline constexpr int kMaxCacheMessageBytes = 4 << 20;
// Of a message's blobs together, whatever the server would take.
inline constexpr uint64_t kMaxBatchBytes = 3 << 20;

// What is known of a server; shared by the calls that it serves.
struct RemoteCacheSession {
  std::shared_ptr<grpc::Channel> channel;
  TlsAccess tls;         // that the channel was made with
  std::string server;    // for messages
  std::string instance;  // instance_name
  std::string bearer;    // value of the header "authorization"; empty: none
  std::chrono::steady_clock::time_point asked_at;  // for its capabilities:
  uint64_t max_batch_bytes = kMaxBatchBytes;
  // Whether results can be put there. Also false once it has refused one.
  std::atomic<bool> takes_results{true};
};

struct RemoteCacheTraffic {
  std::atomic<uint64_t> bytes_read{0};
  std::atomic<uint64_t> bytes_written{0};
};

class RemoteCacheCall {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // `traffic` must live longer.
  RemoteCacheCall(std::shared_ptr<RemoteCacheSession> session, Deadline deadline,
                  RemoteCacheTraffic* traffic)
      : session_(std::move(session)), deadline_(deadline), traffic_(traffic) {}

  // The server failed, or was late: not what it said of a request.
  bool lost() const { return lost_; }
  bool late() const { return late_; }
  // Read, but not with their digests.
  const std::vector<Digest>& damaged() const { return damaged_; }

  void Extend(std::chrono::milliseconds time) { deadline_ += time; }

  absl::StatusOr<reapi::ServerCapabilities> GetCapabilities();
  // The record comes along if the server likes.
  absl::StatusOr<reapi::ActionResult> GetActionResult(const BlobRef& action);
  absl::Status UpdateActionResult(const BlobRef& action, const reapi::ActionResult& result);
  // Those of `refs` that are not there.
  absl::StatusOr<std::vector<BlobRef>> FindMissing(const std::vector<BlobRef>& refs);
  // `refs`: each digest once, none of 0 bytes.
  absl::StatusOr<std::map<Digest, Blob>> Read(const std::vector<BlobRef>& refs);
  struct Upload {
    BlobRef ref;
    const Bytes* bytes = nullptr;
  };
  absl::Status Write(const std::vector<Upload>& uploads);

 private:
  std::unique_ptr<grpc::ClientContext> NewContext() const;
  absl::Status Judge(const grpc::Status& status, const char* request, bool writes);
  absl::Status ReadBatch(std::span<const BlobRef> refs, std::map<Digest, Blob>& found);
  absl::Status ReadStream(const BlobRef& ref, std::map<Digest, Blob>& found);
  absl::Status Keep(const BlobRef& ref, Bytes bytes, std::map<Digest, Blob>& found);
  absl::Status WriteBatch(std::span<const Upload> uploads);
  absl::Status WriteStream(const Upload& upload);
  std::string ResourceName(const std::string& upload_id, const BlobRef& ref) const;

  const std::shared_ptr<RemoteCacheSession> session_;
  Deadline deadline_;
  RemoteCacheTraffic* const traffic_;
  bool lost_ = false;
  bool late_ = false;
  std::vector<Digest> damaged_;
};

}  // namespace hpu::store
