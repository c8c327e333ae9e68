// The calls of RpcClient for administrators.
#include "compile_client/rpc_client.h"

namespace hpu::client {
namespace {

constexpr size_t kChunkBytes = 1 << 20;

void Copy(const store::SignedRecord& from, wire::SignedRecord* to) {
  to->set_record(from.record.data(), from.record.size());
  to->set_signature(from.signature.data(), from.signature.size());
  to->set_public_key(from.public_key.data(), from.public_key.size());
}

// Cuts a program into the messages of Import: header, blobs in chunks, aliases.
class ImportStream {
 public:
  explicit ImportStream(const Exported& program) : program_(program) {}

  bool Next(wire::ImportPart* part) {
    if (!header_sent_) {
      Copy(program_.manifest, part->mutable_program()->mutable_header()->mutable_manifest());
      header_sent_ = true;
      return true;
    }
    while (blob_ < program_.blobs.size() && offset_ == program_.blobs[blob_]->size()) {
      ++blob_;
      offset_ = 0;
    }
    if (blob_ < program_.blobs.size()) {
      const Bytes& bytes = *program_.blobs[blob_];
      const size_t size = std::min(kChunkBytes, bytes.size() - offset_);
      part->mutable_program()->clear_header();
      part->mutable_program()->set_chunk(bytes.data() + offset_, size);
      offset_ += size;
      return true;
    }
    if (alias_ == program_.aliases.size()) return false;
    Copy(program_.aliases[alias_++], part->mutable_alias());
    return true;
  }

 private:
  const Exported& program_;
  bool header_sent_ = false;
  size_t blob_ = 0;
  size_t offset_ = 0;
  size_t alias_ = 0;
};

}  // namespace

absl::Status RpcClient::Pin(const Digest& content_key, bool pinned, const Interrupt& interrupt) {
  wire::PinRequest request;
  request.set_content_key(store::ToString(content_key));
  request.set_pinned(pinned);
  wire::PinReply reply;
  return Unary(&wire::CompileService::Stub::PrepareAsyncPin, request, &reply, interrupt);
}

absl::StatusOr<Garbage> RpcClient::CollectGarbage(uint64_t max_bytes, std::chrono::seconds unused,
                                                  std::chrono::milliseconds timeout,
                                                  const Interrupt& interrupt) {
  wire::GarbageRequest request;
  request.set_max_bytes(max_bytes);
  request.set_unused_seconds(static_cast<uint64_t>(unused.count()));
  wire::GarbageReply reply;
  const Call collect = [&](wire::CompileService::Stub& stub) -> absl::Status {
    PolledCall call(timeout, interrupt);
    RETURN_IF_ERROR(Introduce(call));
    return call.Unary(stub.PrepareAsyncCollectGarbage(call.context(), request, call.queue()),
                      &reply);
  };
  RETURN_IF_ERROR(WithServer(collect));
  return Garbage{reply.removed(), reply.bytes_before(), reply.bytes_after()};
}

absl::Status RpcClient::Verify(std::chrono::milliseconds timeout, const VerifySink& each,
                               const Interrupt& interrupt) {
  bool complete = false;
  const Call verify = [&](wire::CompileService::Stub& stub) -> absl::Status {
    PolledCall call(timeout, interrupt);
    RETURN_IF_ERROR(Introduce(call));
    return call.Stream<wire::VerifyEvent>(
        stub.PrepareAsyncVerify(call.context(), wire::VerifyRequest(), call.queue()),
        [&](const wire::VerifyEvent& event) -> absl::Status {
          if (event.content_key().empty()) {
            complete = true;
            return absl::OkStatus();
          }
          ASSIGN_OR_RETURN(const Digest key,
                           store::ReadDigest(event.content_key(), "content key of an event"));
          return each({event.done(), event.total(), key, event.problem()});
        });
  };
  RETURN_IF_ERROR(WithServer(verify));
  return complete ? absl::OkStatus() : DataLoss("the server ended before it had read everything");
}

absl::StatusOr<uint64_t> RpcClient::Import(const Exported& program,
                                           std::chrono::milliseconds timeout,
                                           const Interrupt& interrupt) {
  wire::ImportReply reply;
  const Call import = [&](wire::CompileService::Stub& stub) -> absl::Status {
    ImportStream parts(program);
    PolledCall call(timeout, interrupt);
    RETURN_IF_ERROR(Introduce(call));
    return call.Upload<wire::ImportPart>(
        stub.PrepareAsyncImport(call.context(), &reply, call.queue()),
        [&](wire::ImportPart* part) { return parts.Next(part); });
  };
  RETURN_IF_ERROR(WithServer(import));
  return reply.aliases();
}

}  // namespace hpu::client
