#include "tests/store/fake_remote_cache.h"

#include <grpcpp/security/server_credentials.h>

#include <regex>
#include <set>

#include "tests/eventually.h"

namespace hpu::store {
namespace {

std::string HashOf(const std::string& data) {
  return ToHex(Sha256({reinterpret_cast<const uint8_t*>(data.data()), data.size()}));
}

bool IsDigest(const reapi::Digest& digest) { return FromRemote(digest).has_value(); }

grpc::Status Missing(const std::string& what) {
  return grpc::Status(grpc::StatusCode::NOT_FOUND, what + " is not here");
}

}  // namespace

class FakeRemoteCache::Capabilities : public reapi::Capabilities::Service {
 public:
  explicit Capabilities(FakeRemoteCache* cache) : cache_(cache) {}
  grpc::Status GetCapabilities(grpc::ServerContext* context,
                               const reapi::GetCapabilitiesRequest* request,
                               reapi::ServerCapabilities* reply) override {
    const grpc::Status entered =
        cache_->Enter(*context, "GetCapabilities", request->instance_name());
    if (!entered.ok()) return entered;
    std::lock_guard<std::mutex> lock(cache_->mutex_);
    auto* const cache = reply->mutable_cache_capabilities();
    cache->add_digest_functions(reapi::DigestFunction::UNKNOWN);
    if (cache_->state_.offers_sha256) cache->add_digest_functions(reapi::DigestFunction::SHA256);
    cache->mutable_action_cache_update_capabilities()->set_update_enabled(
        cache_->state_.takes_results);
    cache->set_max_batch_total_size_bytes(cache_->options_.max_batch_bytes);
    return grpc::Status::OK;
  }

 private:
  FakeRemoteCache* const cache_;
};

class FakeRemoteCache::ActionCache : public reapi::ActionCache::Service {
 public:
  explicit ActionCache(FakeRemoteCache* cache) : cache_(cache) {}
  grpc::Status GetActionResult(grpc::ServerContext* context,
                               const reapi::GetActionResultRequest* request,
                               reapi::ActionResult* reply) override {
    const grpc::Status entered =
        cache_->Enter(*context, "GetActionResult", request->instance_name());
    if (!entered.ok()) return entered;
    {
      std::lock_guard<std::mutex> lock(cache_->mutex_);
      if (!IsDigest(request->action_digest())) return cache_->Violation("no digest of an action");
      const auto found = cache_->state_.results.find(request->action_digest().hash());
      if (found == cache_->state_.results.end()) return Missing("the result");
      *reply = found->second;
    }
    if (cache_->on_result) cache_->on_result(*reply);
    return grpc::Status::OK;
  }
  grpc::Status UpdateActionResult(grpc::ServerContext* context,
                                  const reapi::UpdateActionResultRequest* request,
                                  reapi::ActionResult* reply) override {
    const grpc::Status entered =
        cache_->Enter(*context, "UpdateActionResult", request->instance_name());
    if (!entered.ok()) return entered;
    std::lock_guard<std::mutex> lock(cache_->mutex_);
    State& state = cache_->state_;
    if (!state.takes_results) {
      return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "results are not taken");
    }
    const reapi::ActionResult& result = request->action_result();
    if (!IsDigest(request->action_digest())) return cache_->Violation("no digest of an action");
    std::set<std::string> paths;
    for (const reapi::OutputFile& file : result.output_files()) {
      if (file.path().empty() || file.path().front() == '/' || !paths.insert(file.path()).second) {
        return cache_->Violation("output path '" + file.path() + "'");
      }
      const auto blob = state.blobs.find(file.digest().hash());
      if (blob == state.blobs.end() ||
          blob->second.size() != static_cast<size_t>(file.digest().size_bytes())) {
        return cache_->Violation("result names the blob " + file.digest().hash() +
                                 ", which is not here");
      }
    }
    // A result belongs to an action that is known.
    const auto action = state.blobs.find(request->action_digest().hash());
    reapi::Action parsed;
    if (!result.output_files().empty() &&
        (action == state.blobs.end() || !parsed.ParseFromString(action->second) ||
         !state.blobs.contains(parsed.command_digest().hash()))) {
      return cache_->Violation("result of an unknown action");
    }
    state.results[request->action_digest().hash()] = result;
    *reply = result;
    return grpc::Status::OK;
  }

 private:
  FakeRemoteCache* const cache_;
};

class FakeRemoteCache::Storage : public reapi::ContentAddressableStorage::Service {
 public:
  explicit Storage(FakeRemoteCache* cache) : cache_(cache) {}
  grpc::Status FindMissingBlobs(grpc::ServerContext* context,
                                const reapi::FindMissingBlobsRequest* request,
                                reapi::FindMissingBlobsResponse* reply) override {
    const grpc::Status entered =
        cache_->Enter(*context, "FindMissingBlobs", request->instance_name());
    if (!entered.ok()) return entered;
    std::lock_guard<std::mutex> lock(cache_->mutex_);
    for (const reapi::Digest& digest : request->blob_digests()) {
      if (!IsDigest(digest)) return cache_->Violation("a blob without a digest");
      if (!cache_->state_.blobs.contains(digest.hash()))
        *reply->add_missing_blob_digests() = digest;
    }
    return grpc::Status::OK;
  }
  grpc::Status BatchUpdateBlobs(grpc::ServerContext* context,
                                const reapi::BatchUpdateBlobsRequest* request,
                                reapi::BatchUpdateBlobsResponse* reply) override {
    const grpc::Status entered =
        cache_->Enter(*context, "BatchUpdateBlobs", request->instance_name());
    if (!entered.ok()) return entered;
    {
      std::lock_guard<std::mutex> lock(cache_->mutex_);
      int64_t bytes = 0;
      for (const auto& item : request->requests()) {
        bytes += item.digest().size_bytes();
        if (item.digest().hash() != HashOf(item.data()) ||
            item.digest().size_bytes() != static_cast<int64_t>(item.data().size())) {
          return cache_->Violation("a blob with another digest");
        }
      }
      if (cache_->TooLarge(bytes)) return cache_->Violation("a batch too large");
      for (const auto& item : request->requests()) {
        cache_->state_.blobs[item.digest().hash()] = item.data();
        *reply->add_responses()->mutable_digest() = item.digest();
      }
    }
    if (cache_->on_batch_update) cache_->on_batch_update(*reply);
    return grpc::Status::OK;
  }
  grpc::Status BatchReadBlobs(grpc::ServerContext* context,
                              const reapi::BatchReadBlobsRequest* request,
                              reapi::BatchReadBlobsResponse* reply) override {
    const grpc::Status entered =
        cache_->Enter(*context, "BatchReadBlobs", request->instance_name());
    if (!entered.ok()) return entered;
    {
      std::lock_guard<std::mutex> lock(cache_->mutex_);
      int64_t bytes = 0;
      for (const reapi::Digest& digest : request->digests()) {
        bytes += digest.size_bytes();
        auto* const response = reply->add_responses();
        *response->mutable_digest() = digest;
        const auto found = cache_->state_.blobs.find(digest.hash());
        if (found == cache_->state_.blobs.end()) {
          response->mutable_status()->set_code(grpc::StatusCode::NOT_FOUND);
        } else {
          response->set_data(found->second);
        }
      }
      if (cache_->TooLarge(bytes)) return cache_->Violation("a batch too large");
    }
    if (cache_->on_batch_read) cache_->on_batch_read(*reply);
    return grpc::Status::OK;
  }

 private:
  FakeRemoteCache* const cache_;
};

class FakeRemoteCache::Streams : public google::bytestream::ByteStream::Service {
 public:
  explicit Streams(FakeRemoteCache* cache) : cache_(cache) {}
  grpc::Status Read(grpc::ServerContext* context, const google::bytestream::ReadRequest* request,
                    grpc::ServerWriter<google::bytestream::ReadResponse>* writer) override {
    static const std::regex kName("(?:(.+)/)?blobs/([0-9a-f]{64})/([0-9]+)");
    std::smatch match;
    const std::string name = request->resource_name();
    const bool good = std::regex_match(name, match, kName);
    const grpc::Status entered = cache_->Enter(*context, "Read", match[1]);
    if (!entered.ok()) return entered;
    std::string data;
    {
      std::lock_guard<std::mutex> lock(cache_->mutex_);
      if (!good) return cache_->Violation("resource name " + name);
      const auto found = cache_->state_.blobs.find(match[2]);
      if (found == cache_->state_.blobs.end()) return Missing("the blob");
      data = found->second;
    }
    if (cache_->on_stream_read && cache_->on_stream_read(match[2], *writer)) {
      return grpc::Status::OK;
    }
    constexpr size_t kChunk = 60'000;
    for (size_t at = 0; at < data.size(); at += kChunk) {
      google::bytestream::ReadResponse chunk;
      chunk.set_data(data.substr(at, kChunk));
      if (!writer->Write(chunk)) break;
    }
    return grpc::Status::OK;
  }
  grpc::Status Write(grpc::ServerContext* context,
                     grpc::ServerReader<google::bytestream::WriteRequest>* reader,
                     google::bytestream::WriteResponse* reply) override {
    static const std::regex kName(
        "(?:(.+)/)?uploads/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/blobs/([0-9a-f]{64})/"
        "([0-9]+)");
    google::bytestream::WriteRequest part;
    if (!reader->Read(&part)) return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "empty");
    std::smatch match;
    const std::string name = part.resource_name();
    const bool good = std::regex_match(name, match, kName);
    const grpc::Status entered = cache_->Enter(*context, "Write", match[1]);
    if (!entered.ok()) return entered;
    std::string data;
    bool finished = false;
    {
      std::lock_guard<std::mutex> lock(cache_->mutex_);
      if (!good) return cache_->Violation("resource name " + name);
      reply->set_committed_size(std::stoll(match[3]));
      if (cache_->state_.blobs.contains(match[2])) return grpc::Status::OK;
    }
    do {
      std::lock_guard<std::mutex> lock(cache_->mutex_);
      if (finished || part.write_offset() != static_cast<int64_t>(data.size()) ||
          (!part.resource_name().empty() && part.resource_name() != name)) {
        return cache_->Violation("a write at " + std::to_string(part.write_offset()));
      }
      data += part.data();
      finished = part.finish_write();
    } while (reader->Read(&part));
    std::lock_guard<std::mutex> lock(cache_->mutex_);
    if (!finished) return grpc::Status(grpc::StatusCode::CANCELLED, "not finished");
    if (std::to_string(data.size()) != match[3] || HashOf(data) != match[2]) {
      return cache_->Violation("a blob with another digest");
    }
    cache_->state_.blobs[match[2]] = std::move(data);
    return grpc::Status::OK;
  }

 private:
  FakeRemoteCache* const cache_;
};

FakeRemoteCache::FakeRemoteCache(Options options) : options_(std::move(options)) {
  state_.takes_results = options_.takes_results;
  state_.offers_sha256 = options_.offers_sha256;
  services_.push_back(std::make_unique<Capabilities>(this));
  services_.push_back(std::make_unique<ActionCache>(this));
  services_.push_back(std::make_unique<Storage>(this));
  services_.push_back(std::make_unique<Streams>(this));
  Start();
}

FakeRemoteCache::~FakeRemoteCache() { Stop(); }

void FakeRemoteCache::Start() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(target(), options_.credentials, &port_);
  for (const auto& service : services_) builder.RegisterService(service.get());
  server_ = builder.BuildAndStart();
  HPU_CHECK(server_ != nullptr);
}

void FakeRemoteCache::Stop() {
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_ = nullptr;
}

void FakeRemoteCache::Use(const std::function<void(State& state)>& use) {
  std::lock_guard<std::mutex> lock(mutex_);
  use(state_);
}

int FakeRemoteCache::Calls(const std::string& name) {
  std::lock_guard<std::mutex> lock(mutex_);
  return state_.calls[name];
}

std::vector<std::string> FakeRemoteCache::Violations() {
  std::lock_guard<std::mutex> lock(mutex_);
  return state_.violations;
}

grpc::Status FakeRemoteCache::Enter(const grpc::ServerContext& context, const std::string& call,
                                    const std::string& instance) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ++state_.calls[call];
    if (instance != options_.instance) return Violation("instance '" + instance + "'");
    const auto shown = context.client_metadata().find("authorization");
    const std::string authorization = shown == context.client_metadata().end()
                                          ? ""
                                          : std::string(shown->second.data(), shown->second.size());
    if (authorization != options_.authorization) {
      return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "who are you?");
    }
  }
  return before ? before(call) : grpc::Status::OK;
}

grpc::Status FakeRemoteCache::Violation(const std::string& what) {
  state_.violations.push_back(what);
  return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, what);
}

RemoteCacheOptions TestOptionsOf(const std::string& address) {
  RemoteCacheOptions options;
  options.address = address;
  options.timeout = kHangLimit;
  options.retry_after = std::chrono::milliseconds(200);
  options.max_retry_after = std::chrono::milliseconds(400);
  return options;
}

RemoteCacheOptions ImpatientOptionsOf(const std::string& address) {
  RemoteCacheOptions options = TestOptionsOf(address);
  options.timeout = std::chrono::milliseconds(300);
  return options;
}

std::unique_ptr<RemoteCacheRecipeStore> RemoteStoreAt(const RemoteCacheOptions& options) {
  return std::make_unique<RemoteCacheRecipeStore>(RemoteCacheClient::Make(options).value());
}

std::unique_ptr<RemoteCacheRecipeStore> RemoteStoreAt(const std::string& address) {
  return RemoteStoreAt(TestOptionsOf(address));
}

}  // namespace hpu::store
