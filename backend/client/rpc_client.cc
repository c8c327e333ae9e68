#include "backend/client/rpc_client.h"

#include "backend/client/polled_call.h"
#include "graph/captured_graph.h"
#include "proto/protocol_version.h"

namespace hpu::client {
namespace {

wire::CompileRequest ToRequest(const CompileCall& call) {
  wire::CompileRequest request;
  request.set_graph(call.graph);
  for (const auto& [name, value] : call.options) {
    wire::CompileOption* option = request.add_options();
    option->set_name(name);
    option->set_value(value);
  }
  request.set_device_kind(call.device_kind);
  request.set_isa_level(call.isa_level);
  request.set_skip_cache_lookup(call.skip_cache_lookup);
  if (!call.front_end.has_value()) return request;
  request.mutable_front_end()->set_key(store::ToString(call.front_end->key));
  for (const store::KeyFactor& factor : call.front_end->factors) {
    wire::KeyFactor* added = request.mutable_front_end()->add_factors();
    added->set_name(factor.name);
    added->set_value(factor.value);
  }
  request.mutable_front_end()->set_label(call.front_end->label);
  return request;
}

// What the answer has to be a program of; the compiler is the server's.
absl::StatusOr<store::Content> ContentOf(const CompileCall& call) {
  store::Content content;
  const absl::StatusOr<Digest> graph =
      GraphDigest({reinterpret_cast<const uint8_t*>(call.graph.data()), call.graph.size()});
  if (!graph.ok()) return InvalidArgument(graph.status().message());
  content.graph = *graph;
  ASSIGN_OR_RETURN(content.options, store::CanonicalOptions(call.options));
  content.device_kind = call.device_kind;
  content.isa_level = call.isa_level;
  return content;
}

template <typename Message>
Bytes Serialized(const Message& message) {
  Bytes bytes(message.ByteSizeLong());
  message.SerializeToArray(bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
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
  CompileEvents(const store::Content& content, const store::PublicKey& trusted,
                const ProgressSink& progress)
      : assembler_(content, trusted), progress_(progress) {}

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
    if (!IsServerUnavailable(status) || !absl::IsUnavailable(status)) return status;
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
  return ServerUnavailable(
      Error(absl::StatusCode::kUnavailable, "the server's public key: ", ToText(key.status())));
}

absl::StatusOr<ServerInfo> RpcClient::Hello(const Interrupt& interrupt) {
  wire::HelloRequest request;
  request.set_protocol_version(wire::kProtocolVersion);
  wire::HelloReply reply;
  RETURN_IF_ERROR(WithConnection([&](wire::CompileService::Stub& stub) {
    PolledCall call(options_.call_timeout, interrupt);
    return call.Unary(stub.PrepareAsyncHello(call.context(), request, call.queue()), &reply);
  }));
  if (reply.protocol_version() != wire::kProtocolVersion) {
    return wire::OtherProtocol("server", reply.protocol_version(), "client");
  }
  return ServerInfo{reply.server_build_id(), reply.protocol_version(),
                    static_cast<pid_t>(reply.pid())};
}

absl::StatusOr<store::Entry> RpcClient::Get(const ByFrontEndKey& key, const Interrupt& interrupt) {
  wire::GetProgramRequest request;
  request.set_front_end_key(store::ToString(key.key));
  return Fetch(request, key, interrupt);
}

absl::StatusOr<store::Entry> RpcClient::Get(const ByContentKey& key, const Interrupt& interrupt) {
  wire::GetProgramRequest request;
  request.set_content_key(store::ToString(key.key));
  return Fetch(request, key, interrupt);
}

absl::StatusOr<store::Entry> RpcClient::Fetch(const wire::GetProgramRequest& request,
                                              const Wanted& wanted, const Interrupt& interrupt) {
  absl::StatusOr<store::Entry> entry = absl::UnknownError("no answer");
  const Call fetch = [&](wire::CompileService::Stub& stub) -> absl::Status {
    ASSIGN_OR_RETURN(const store::PublicKey trusted, TrustedKey());
    ProgramAssembler assembler(wanted, trusted);
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
  ASSIGN_OR_RETURN(const store::Content content, ContentOf(compile_call));
  const wire::CompileRequest request = ToRequest(compile_call);
  absl::StatusOr<Compiled> compiled = absl::UnknownError("no answer");
  const Call compile = [&](wire::CompileService::Stub& stub) -> absl::Status {
    ASSIGN_OR_RETURN(const store::PublicKey trusted, TrustedKey());
    CompileEvents events(content, trusted, progress);
    PolledCall call(timeout, interrupt, Late::kAnswer);
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

absl::StatusOr<std::vector<Listed>> RpcClient::List(uint32_t limit, const Interrupt& interrupt) {
  wire::ListRequest request;
  request.set_limit(limit);
  std::vector<Listed> programs;
  const Call list = [&](wire::CompileService::Stub& stub) {
    programs.clear();
    PolledCall call(options_.call_timeout, interrupt);
    return call.Stream<wire::ListEntry>(
        stub.PrepareAsyncList(call.context(), request, call.queue()),
        [&](const wire::ListEntry& entry) -> absl::Status {
          Listed& listed = programs.emplace_back();
          ASSIGN_OR_RETURN(listed.manifest, store::DecodeManifest(Serialized(entry.manifest())));
          listed.hits = entry.hits();
          for (const wire::Alias& alias : entry.aliases()) {
            ASSIGN_OR_RETURN(listed.aliases.emplace_back(), store::DecodeAlias(Serialized(alias)));
          }
          return absl::OkStatus();
        });
  };
  RETURN_IF_ERROR(WithConnection(list));
  return programs;
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
