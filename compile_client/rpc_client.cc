#include "compile_client/rpc_client.h"

#include <thread>

#include "graph/captured_graph.h"
#include "proto/protocol_version.h"

namespace hpu::client {
namespace {

constexpr char kVerdict[] = "hpu.client.Verdict";
constexpr std::chrono::milliseconds kPoll{100};

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
  request.set_warm_up(call.warm_up);
  request.set_frozen(call.frozen);
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

// The content that the answer must have; the compiler is the server's.
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

absl::StatusOr<Listed> ToListed(const wire::ListEntry& entry) {
  Listed listed;
  ASSIGN_OR_RETURN(listed.manifest, store::DecodeManifest(Serialized(entry.manifest())));
  listed.hits = entry.hits();
  listed.pinned = entry.pinned();
  listed.upstream = entry.upstream();
  for (const wire::Alias& alias : entry.aliases()) {
    ASSIGN_OR_RETURN(listed.aliases.emplace_back(), store::DecodeAlias(Serialized(alias)));
  }
  return listed;
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
  CompileEvents(const store::Content& content, std::shared_ptr<const store::Keyring> trusted,
                const ProgressSink& progress)
      : assembler_(content, std::move(trusted)), progress_(progress) {}

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
    return absl::OkStatus();  // from a newer server; nothing that this client needs
  }

  absl::StatusOr<Compiled> Finish() {
    ASSIGN_OR_RETURN(store::Entry entry, assembler_.Finish());
    return Compiled{std::move(entry), origin_};
  }

 private:
  static absl::Status Verdict(const wire::CompileEvent::Failure& failure) {
    if (failure.code() == 0) return DataLoss("the server sent a failure without a code");
    absl::Status verdict(static_cast<absl::StatusCode>(failure.code()), failure.message());
    verdict.SetPayload(kVerdict, absl::Cord());
    return verdict;
  }

  ProgramAssembler assembler_;
  const ProgressSink& progress_;
  Origin origin_ = Origin::kCompiled;
};

absl::Status WaitUntil(std::chrono::steady_clock::time_point end, const ProgressSink& progress,
                       const Interrupt& interrupt) {
  while (std::chrono::steady_clock::now() < end) {
    RETURN_IF_ERROR(progress({"waiting for a busy server", 0, 0}));
    RETURN_IF_ERROR(interrupt());
    std::this_thread::sleep_for(kPoll);
  }
  return absl::OkStatus();
}

}  // namespace

bool IsVerdict(const absl::Status& status) { return status.GetPayload(kVerdict).has_value(); }

RpcClient::Options LocalServer(const std::string& socket_path, const std::string& keyring_path) {
  RpcClient::Options options;
  options.servers.endpoints = {{Endpoint::Kind::kUnix, socket_path}};
  const std::string path = keyring_path.empty() ? socket_path + ".pub" : keyring_path;
  // Checked at every call, because a new server may have another key. The copies of the function
  // share it.
  const auto file = std::make_shared<CachedFile<store::Keyring>>(
      path, [path] { return store::ReadKeyring(path); });
  options.trusted = [file]() -> absl::StatusOr<std::shared_ptr<const store::Keyring>> {
    absl::StatusOr<std::shared_ptr<const store::Keyring>> keyring = file->Get();
    if (keyring.ok()) return keyring;
    return ServerUnavailable(Error(absl::StatusCode::kUnavailable,
                                   "the server's public key: ", ToText(keyring.status())));
  };
  return options;
}

bool RpcClient::IsOfNoUse(const absl::Status& status) const {
  if (options_.compiler_build_id.empty() || IsVerdict(status)) return false;
  return absl::IsFailedPrecondition(status) || absl::IsUnauthenticated(status) ||
         absl::IsPermissionDenied(status);
}

absl::Status RpcClient::WithServer(const Call& call) {
  ServerSet::Tried tried = servers_.NoneTried();
  absl::Status last;
  while (true) {
    absl::StatusOr<ServerSet::Choice> choice = servers_.Choose(tried);
    if (!choice.ok()) return last.ok() ? choice.status() : last;
    last = call(*choice->connection->stub);
    if (IsOfNoUse(last)) {
      servers_.WasLate(*choice, tried);
    } else if (!IsServerUnavailable(last)) {
      servers_.Worked(*choice);
      return last;
    } else if (absl::IsUnavailable(last)) {
      servers_.Broke(*choice, tried);
    } else {
      servers_.WasLate(*choice, tried);
    }
  }
}

absl::Status RpcClient::Introduce(PolledCall& call) {
  if (options_.servers.access.token_file.empty()) return absl::OkStatus();
  const absl::StatusOr<std::shared_ptr<const std::string>> bearer = bearer_.Get();
  if (!bearer.ok()) {
    return ServerUnavailable(Error(absl::StatusCode::kUnavailable, bearer.status().message(),
                                   ", which was given for the compile server"));
  }
  call.context()->AddMetadata("authorization", **bearer);
  return absl::OkStatus();
}

absl::StatusOr<ServerInfo> RpcClient::Hello(const Interrupt& interrupt) {
  wire::HelloRequest request;
  request.set_protocol_version(wire::kProtocolVersion);
  wire::HelloReply reply;
  RETURN_IF_ERROR(
      Unary(&wire::CompileService::Stub::PrepareAsyncHello, request, &reply, interrupt));
  if (reply.protocol_version() != wire::kProtocolVersion) {
    return wire::OtherProtocol("server", reply.protocol_version(), "client");
  }
  return ServerInfo{
      reply.server_build_id(), reply.protocol_version(), static_cast<pid_t>(reply.pid()),
      reply.upstream(),        reply.config_file(),      reply.memory_only()};
}

absl::StatusOr<Fetched> RpcClient::Get(const ByFrontEndKey& key, const Interrupt& interrupt) {
  wire::GetProgramRequest request;
  request.set_compiler_build_id(options_.compiler_build_id);
  request.set_front_end_key(store::ToString(key.key));
  return Fetch(request, key, interrupt);
}

absl::StatusOr<Fetched> RpcClient::Get(const ByContentKey& key, const Interrupt& interrupt) {
  wire::GetProgramRequest request;
  request.set_compiler_build_id(options_.compiler_build_id);
  request.set_content_key(store::ToString(key.key));
  return Fetch(request, key, interrupt);
}

absl::StatusOr<Fetched> RpcClient::Fetch(const wire::GetProgramRequest& request,
                                         const Wanted& wanted, const Interrupt& interrupt) {
  absl::StatusOr<Fetched> fetched = absl::UnknownError("no answer");
  const Call fetch = [&](wire::CompileService::Stub& stub) -> absl::Status {
    ASSIGN_OR_RETURN(const std::shared_ptr<const store::Keyring> trusted, options_.trusted());
    ProgramAssembler assembler(wanted, trusted);
    PolledCall call(options_.call_timeout, interrupt);
    RETURN_IF_ERROR(Introduce(call));
    RETURN_IF_ERROR(call.Stream<wire::ProgramPart>(
        stub.PrepareAsyncGetProgram(call.context(), request, call.queue()),
        [&](const wire::ProgramPart& part) { return assembler.Add(part); }));
    absl::StatusOr<store::Entry> entry = assembler.Finish();
    RETURN_IF_ERROR(entry.status());
    fetched = Fetched{*std::move(entry), assembler.alias()};
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(WithServer(fetch));
  return fetched;
}

absl::StatusOr<Compiled> RpcClient::Compile(const CompileCall& compile_call,
                                            std::chrono::milliseconds timeout,
                                            const ProgressSink& progress,
                                            const Interrupt& interrupt) {
  ASSIGN_OR_RETURN(const store::Content content, ContentOf(compile_call));
  wire::CompileRequest request = ToRequest(compile_call);
  request.set_compiler_build_id(options_.compiler_build_id);
  absl::StatusOr<Compiled> compiled = absl::UnknownError("no answer");
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const Call compile = [&](wire::CompileService::Stub& stub) -> absl::Status {
    ASSIGN_OR_RETURN(const std::shared_ptr<const store::Keyring> trusted, options_.trusted());
    CompileEvents events(content, trusted, progress);
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    PolledCall call(timeout, left, interrupt, Late::kAnswer);
    RETURN_IF_ERROR(Introduce(call));
    RETURN_IF_ERROR(call.Stream<wire::CompileEvent>(
        stub.PrepareAsyncCompile(call.context(), request, call.queue()),
        [&](const wire::CompileEvent& event) { return events.Handle(event); }));
    compiled = events.Finish();
    return compiled.status();
  };
  absl::Status status = WithServer(compile);
  // An overloaded server says when to ask again. That is done a few times, and then the error is
  // returned.
  for (int i = 0; i < options_.busy_retries && RetryHint(status).has_value(); ++i) {
    const auto again = std::chrono::steady_clock::now() + *RetryHint(status);
    if (again >= deadline) break;
    RETURN_IF_ERROR(WaitUntil(again, progress, interrupt));
    status = WithServer(compile);
  }
  RETURN_IF_ERROR(status);
  return compiled;
}

absl::StatusOr<std::map<std::string, uint64_t>> RpcClient::Stats(const Interrupt& interrupt) {
  wire::StatsReply reply;
  RETURN_IF_ERROR(Unary(&wire::CompileService::Stub::PrepareAsyncGetStats, wire::StatsRequest(),
                        &reply, interrupt));
  return std::map<std::string, uint64_t>(reply.counters().begin(), reply.counters().end());
}

absl::StatusOr<ListPage> RpcClient::List(const ListQuery& query, const Interrupt& interrupt) {
  wire::ListRequest request;
  request.set_limit(query.limit);
  request.set_upstream(query.upstream);
  if (query.after.has_value()) {
    request.mutable_after()->set_created_unix_seconds(query.after->created_unix_seconds);
    request.mutable_after()->set_content_key(store::ToString(query.after->key));
  }
  wire::ListReply reply;
  RETURN_IF_ERROR(Unary(&wire::CompileService::Stub::PrepareAsyncList, request, &reply, interrupt));
  ListPage page;
  for (const wire::ListEntry& entry : reply.entries()) {
    ASSIGN_OR_RETURN(page.programs.emplace_back(), ToListed(entry));
  }
  if (!reply.has_next()) return page;
  ASSIGN_OR_RETURN(const Digest key,
                   store::ReadDigest(reply.next().content_key(), "content key of a list"));
  page.next = {reply.next().created_unix_seconds(), key};
  if (query.after.has_value() && *page.next >= *query.after) {
    return DataLoss("the server's list does not go on");
  }
  return page;
}

absl::Status RpcClient::Shutdown(const std::string& reason, const Interrupt& interrupt) {
  wire::ShutdownRequest request;
  request.set_reason(reason);
  wire::ShutdownReply reply;
  return Unary(&wire::CompileService::Stub::PrepareAsyncShutdown, request, &reply, interrupt);
}

}  // namespace hpu::client
