// RemoteCacheCall is one call of the store to a Remote Execution API cache. It makes several
// requests within one deadline and notes what became of the server.
//
// An answer of the server is limited in size and time and checked for its form. It is cut short if
// it is too long or too late. Statuses are those of the store. NOT_FOUND means that the server does
// not have the entry, DATA_LOSS that it answers something that was not put there, and UNAVAILABLE
// everything else.
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

// This is gRPC's own bound of a message, which servers and other clients have unless told
// otherwise. It also bounds what is sent to us, because hostile bytes take several times as much
// once they are parsed.
inline constexpr int kMaxCacheMessageBytes = 4 << 20;
// The blobs of a message have at most so many bytes together, whatever the server would take.
inline constexpr uint64_t kMaxBatchBytes = 3 << 20;

// A session holds what is known of a server. The calls that it serves share it.
struct RemoteCacheSession {
  std::shared_ptr<grpc::Channel> channel;
  TlsAccess tls;         // the channel was made with it
  std::string server;    // for messages
  std::string instance;  // instance_name
  std::string bearer;    // value of the header "authorization"; empty: none
  // The time of the question for its capabilities, which are:
  std::chrono::steady_clock::time_point asked_at;
  uint64_t max_batch_bytes = kMaxBatchBytes;
  // False if no results can be put there, also after the server has refused one.
  std::atomic<bool> takes_results{true};
};

struct RemoteCacheTraffic {
  std::atomic<uint64_t> bytes_read{0};
  std::atomic<uint64_t> bytes_written{0};
};

class RemoteCacheCall {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // `traffic` must outlive this object.
  RemoteCacheCall(std::shared_ptr<RemoteCacheSession> session, Deadline deadline,
                  RemoteCacheTraffic* traffic)
      : session_(std::move(session)), deadline_(deadline), traffic_(traffic) {}

  // These say that the server failed, or was late. An answer that refuses a request is no failure.
  bool lost() const { return lost_; }
  bool late() const { return late_; }
  // Returns the blobs that were read, but do not have their digests.
  const std::vector<Digest>& damaged() const { return damaged_; }

  void Extend(std::chrono::milliseconds time) { deadline_ += time; }

  absl::StatusOr<reapi::ServerCapabilities> GetCapabilities();
  // The server may send the record along.
  absl::StatusOr<reapi::ActionResult> GetActionResult(const BlobRef& action);
  absl::Status UpdateActionResult(const BlobRef& action, const reapi::ActionResult& result);
  // Returns those of `refs` that are not there.
  absl::StatusOr<std::vector<BlobRef>> FindMissing(const std::vector<BlobRef>& refs);
  // `refs` must have each digest once and no empty blob. NOT_FOUND: one of them is not there.
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
