#include "backend/client/rpc_client.h"

#include "backend/client/polled_call.h"
#include "backend/client/program_assembler.h"

namespace hpu::client {
namespace {

constexpr uint32_t kProtocolVersion = 1;

std::string ToString(const Digest& digest) {
  return std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
}

wire::CompileRequest ToRequest(const CompileCall& call) {
  wire::CompileRequest request;
  request.set_key(ToString(call.key));
  request.set_graph(call.graph);
  for (const auto& [name, value] : call.options) {
    wire::CompileOption* option = request.add_options();
    option->set_name(name);
    option->set_value(value);
  }
  for (const store::KeyFactor& factor : call.factors) {
    wire::KeyFactor* added = request.add_factors();
    added->set_name(factor.name);
    added->set_value(factor.value);
  }
  request.set_device_kind(call.device_kind);
  request.set_isa_level(call.isa_level);
  request.set_skip_cache_lookup(call.skip_cache_lookup);
  return request;
}

Origin ToOrigin(wire::CompileEvent::Origin origin) {
  switch (origin) {
    case wire::CompileEvent::ORIGIN_COALESCED:
      return Origin::kCoalesced;
    case wire::CompileEvent::ORIGIN_STORE:
      return Origin::kStore;
    default:
      return Origin::kCompiled;
  }
}

// The events of one Compile call.
class CompileEvents {
 public:
  CompileEvents(const Digest& key, const store::PublicKey& trusted, const ProgressSink& progress)
      : assembler_(key, trusted), progress_(progress) {}

  absl::Status Handle(const wire::CompileEvent& event) {
    switch (event.event_case()) {
      case wire::CompileEvent::kQueued:
        return progress_({"queued", event.queued().position(), 0});
      case wire::CompileEvent::kProgress:
        return progress_(
            {event.progress().stage(), event.progress().done(), event.progress().total()});
      case wire::CompileEvent::kProgram:
        origin_ = ToOrigin(event.origin());
        return assembler_.Add(event.program());
      case wire::CompileEvent::kFailure:
        return Verdict(event.failure());
      case wire::CompileEvent::EVENT_NOT_SET:
        break;
    }
    return absl::OkStatus();  // of a newer server; nothing that we need
  }

  absl::StatusOr<Compiled> Finish() {
    ASSIGN_OR_RETURN(store::Entry entry, assembler_.Finish());
    return Compiled{std::move(entry), origin_};
  }

 private:
  static absl::Status Verdict(const wire::CompileEvent::Failure& failure) {
    if (failure.code() == 0) return DataLoss("the server sent a failure without a code");
    return absl::Status(static_cast<absl::StatusCode>(failure.code()), failure.message());
  }

  ProgramAssembler assembler_;
  const ProgressSink& progress_;
  Origin origin_ = Origin::kCompiled;
};

}  // namespace

RpcClient::RpcClient(Options options) : options_(std::move(options)) {}

RpcClient::~RpcClient() {
  // In a forked child gRPC's objects must not be touched; they are lost on purpose.
  if (AfterFork()) new std::shared_ptr<Connection>(std::move(connection_));
}

absl::StatusOr<std::shared_ptr<Connection>> RpcClient::CurrentConnection(bool* reused) {
  // Before the lock, which another thread of the parent may have held at the fork.
  if (AfterFork()) return Connect(options_.socket_path).status();
  std::lock_guard<std::mutex> lock(mutex_);
  *reused = connection_ != nullptr;
  if (!*reused) {
    ASSIGN_OR_RETURN(connection_, Connect(options_.socket_path));
  }
  return connection_;
}

absl::Status RpcClient::WithConnection(const Call& call) {
  while (true) {
    bool reused = false;
    ASSIGN_OR_RETURN(const std::shared_ptr<Connection> connection, CurrentConnection(&reused));
    const absl::Status status = call(*connection->stub);
    if (!absl::IsUnavailable(status)) return status;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (connection_ == connection) connection_ = nullptr;
    }
    if (!reused) return status;
  }
}

absl::StatusOr<store::PublicKey> RpcClient::TrustedKey() const {
  // Read every time: it is 32 bytes, and a server that replaced another may have a new one.
  const std::string path =
      options_.public_key_path.empty() ? options_.socket_path + ".pub" : options_.public_key_path;
  absl::StatusOr<store::PublicKey> key = store::ReadPublicKey(path);
  if (key.ok()) return key;
  return Error(absl::StatusCode::kUnavailable, "the server's public key: ", ToText(key.status()));
}

absl::StatusOr<ServerInfo> RpcClient::Hello(const Interrupt& interrupt) {
  wire::HelloRequest request;
  request.set_protocol_version(kProtocolVersion);
  wire::HelloReply reply;
  RETURN_IF_ERROR(WithConnection([&](wire::CompileService::Stub& stub) {
    PolledCall call(options_.call_timeout, interrupt);
    return call.Unary(stub.PrepareAsyncHello(call.context(), request, call.queue()), &reply);
  }));
  return ServerInfo{reply.server_build_id(), reply.protocol_version(),
                    static_cast<pid_t>(reply.pid())};
}

absl::StatusOr<store::Entry> RpcClient::Get(const Digest& key, const Interrupt& interrupt) {
  wire::GetProgramRequest request;
  request.set_key(ToString(key));
  absl::StatusOr<store::Entry> entry = absl::UnknownError("no answer");
  const Call fetch = [&](wire::CompileService::Stub& stub) -> absl::Status {
    ASSIGN_OR_RETURN(const store::PublicKey trusted, TrustedKey());
    ProgramAssembler assembler(key, trusted);
    PolledCall call(options_.call_timeout, interrupt);
    RETURN_IF_ERROR(call.Stream<wire::ProgramPart>(
        stub.PrepareAsyncGetProgram(call.context(), request, call.queue()),
        [&](const wire::ProgramPart& part) { return assembler.Add(part); }));
    entry = assembler.Finish();
    return entry.status();
  };
  RETURN_IF_ERROR(WithConnection(fetch));
  return entry;
}

absl::StatusOr<Compiled> RpcClient::Compile(const CompileCall& compile_call,
                                            std::chrono::milliseconds timeout,
                                            const ProgressSink& progress,
                                            const Interrupt& interrupt) {
  const wire::CompileRequest request = ToRequest(compile_call);
  absl::StatusOr<Compiled> compiled = absl::UnknownError("no answer");
  const Call compile = [&](wire::CompileService::Stub& stub) -> absl::Status {
    ASSIGN_OR_RETURN(const store::PublicKey trusted, TrustedKey());
    CompileEvents events(compile_call.key, trusted, progress);
    PolledCall call(timeout, interrupt);
    RETURN_IF_ERROR(call.Stream<wire::CompileEvent>(
        stub.PrepareAsyncCompile(call.context(), request, call.queue()),
        [&](const wire::CompileEvent& event) { return events.Handle(event); }));
    compiled = events.Finish();
    return compiled.status();
  };
  RETURN_IF_ERROR(WithConnection(compile));
  return compiled;
}

absl::StatusOr<std::map<std::string, uint64_t>> RpcClient::Stats(const Interrupt& interrupt) {
  wire::StatsReply reply;
  RETURN_IF_ERROR(WithConnection([&](wire::CompileService::Stub& stub) {
    PolledCall call(options_.call_timeout, interrupt);
    return call.Unary(stub.PrepareAsyncGetStats(call.context(), wire::StatsRequest(), call.queue()),
                      &reply);
  }));
  return std::map<std::string, uint64_t>(reply.counters().begin(), reply.counters().end());
}

absl::StatusOr<std::vector<store::Manifest>> RpcClient::List(uint32_t limit,
                                                             const Interrupt& interrupt) {
  wire::ListRequest request;
  request.set_limit(limit);
  std::vector<store::Manifest> manifests;
  const Call list = [&](wire::CompileService::Stub& stub) {
    manifests.clear();
    PolledCall call(options_.call_timeout, interrupt);
    return call.Stream<wire::ListEntry>(
        stub.PrepareAsyncList(call.context(), request, call.queue()),
        [&](const wire::ListEntry& entry) -> absl::Status {
          const std::string bytes = entry.manifest().SerializeAsString();
          ASSIGN_OR_RETURN(store::Manifest manifest,
                           store::DecodeManifest(
                               {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}));
          manifests.push_back(std::move(manifest));
          return absl::OkStatus();
        });
  };
  RETURN_IF_ERROR(WithConnection(list));
  return manifests;
}

absl::Status RpcClient::Shutdown(const std::string& reason, const Interrupt& interrupt) {
  wire::ShutdownRequest request;
  request.set_reason(reason);
  wire::ShutdownReply reply;
  return WithConnection([&](wire::CompileService::Stub& stub) {
    PolledCall call(options_.call_timeout, interrupt);
    return call.Unary(stub.PrepareAsyncShutdown(call.context(), request, call.queue()), &reply);
  });
}

}  // namespace hpu::client
