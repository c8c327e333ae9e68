// The blobs of RemoteCacheCall that are too large for one message.
#include <random>

#include "recipe_store/remote_cache/remote_cache_call.h"

namespace hpu::store {
namespace {

constexpr uint64_t kChunkBytes = 256 << 10;
// Until so much of a blob has come, its size is only what the server says.
constexpr uint64_t kFirstReserveBytes = 16 << 20;

// Returns a random UUID, which names an upload among those of all clients.
std::string NewUploadId() {
  static thread_local std::mt19937_64 generator{std::random_device()()};
  std::array<uint8_t, 16> bytes{};
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(generator());
  bytes[6] = static_cast<uint8_t>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<uint8_t>((bytes[8] & 0x3f) | 0x80);
  std::string id = ToHex(bytes);
  for (const size_t at : {20, 16, 12, 8}) id.insert(at, 1, '-');
  return id;
}

}  // namespace

std::string RemoteCacheCall::ResourceName(const std::string& upload_id, const BlobRef& ref) const {
  std::string name = session_->instance.empty() ? "" : session_->instance + "/";
  if (!upload_id.empty()) name += "uploads/" + upload_id + "/";
  return name + "blobs/" + ToHex(ref.digest) + "/" + std::to_string(ref.size_bytes);
}

absl::Status RemoteCacheCall::ReadStream(const BlobRef& ref, std::map<Digest, Blob>& found) {
  google::bytestream::ReadRequest request;
  request.set_resource_name(ResourceName("", ref));
  const auto stub = google::bytestream::ByteStream::NewStub(session_->channel);
  const auto context = NewContext();
  const auto reader = stub->Read(context.get(), request);
  Bytes bytes;
  bytes.reserve(std::min(ref.size_bytes, kFirstReserveBytes));
  google::bytestream::ReadResponse chunk;
  bool too_long = false;
  while (!too_long && reader->Read(&chunk)) {
    traffic_->bytes_read += chunk.data().size();
    too_long = chunk.data().size() > ref.size_bytes - bytes.size();
    if (!too_long) bytes.insert(bytes.end(), chunk.data().begin(), chunk.data().end());
  }
  if (too_long) context->TryCancel();
  const grpc::Status status = reader->Finish();
  if (too_long) {
    damaged_.push_back(ref.digest);
    return DataLoss("remote cache ", session_->server, ": blob ", ToHex(ref.digest),
                    " has more than its ", ref.size_bytes, " bytes");
  }
  RETURN_IF_ERROR(Judge(status, "ByteStream.Read", false));
  return Keep(ref, std::move(bytes), found);
}

absl::Status RemoteCacheCall::WriteStream(const Upload& upload) {
  const auto stub = google::bytestream::ByteStream::NewStub(session_->channel);
  const auto context = NewContext();
  google::bytestream::WriteResponse reply;
  const auto writer = stub->Write(context.get(), &reply);
  const uint64_t size = upload.ref.size_bytes;
  google::bytestream::WriteRequest request;
  request.set_resource_name(ResourceName(NewUploadId(), upload.ref));
  for (uint64_t at = 0; at < size;) {
    const uint64_t part = std::min(kChunkBytes, size - at);
    request.set_write_offset(static_cast<int64_t>(at));
    request.set_data(upload.bytes->data() + at, part);
    at += part;
    request.set_finish_write(at == size);
    // The server may end the upload early: it has the blob, or says why it does not take it.
    if (!writer->Write(request)) break;
    traffic_->bytes_written += part;
    request.clear_resource_name();
  }
  writer->WritesDone();
  RETURN_IF_ERROR(Judge(writer->Finish(), "ByteStream.Write", true));
  if (reply.committed_size() == static_cast<int64_t>(size)) return absl::OkStatus();
  return Error(absl::StatusCode::kUnavailable, "remote cache ", session_->server, ": blob ",
               ToHex(upload.ref.digest), ": ", reply.committed_size(), " of ", size,
               " bytes were taken");
}

}  // namespace hpu::store
