#include "tests/cluster/calls.h"

#include <grpcpp/create_channel.h>

#include <fstream>

#include "graph/graph_builder.h"
#include "tests/service/fake_backend.h"

namespace hpu::cluster {
namespace {

using Clock = std::chrono::steady_clock;

const client::Interrupt kNoInterrupt = [] { return absl::OkStatus(); };
const client::ProgressSink kNoProgress = [](const client::Progress&) { return absl::OkStatus(); };

std::string GraphThatSays(const std::string& text) {
  GraphBuilder builder("fake");
  const auto size = static_cast<int64_t>(text.size());
  const uint32_t constant =
      builder.AddConstant({{DType::kU8, {size}, {1}, 0}, Bytes(text.begin(), text.end())});
  builder.SetOutputs({{TensorArgument{constant}}});
  const Bytes bytes = EncodeGraph(builder.Finish().value());
  return std::string(bytes.begin(), bytes.end());
}

Digest FrontEndKeyOf(const std::string& said) {
  const std::string text = "front end of " + said;
  return Sha256({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

double MillisecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

const char* Name(client::Origin origin) {
  switch (origin) {
    case client::Origin::kCompiled:
      return "compiled";
    case client::Origin::kCoalesced:
      return "coalesced";
    case client::Origin::kStore:
      return "store";
  }
  return "";
}

client::RpcClient::Options RpcOptions(const CallerOptions& options) {
  client::RpcClient::Options rpc =
      client::LocalServer(options.servers.endpoints.at(0).target, options.keyring);
  rpc.servers = options.servers;
  rpc.call_timeout = options.timeout;
  rpc.compiler_build_id = options.build_id;
  return rpc;
}

// Does what the client of every product does.
class VerifyingCaller : public Caller {
 public:
  explicit VerifyingCaller(CallerOptions options)
      : options_(std::move(options)), rpc_(RpcOptions(options_)) {}

  Outcome Get(uint64_t number) override {
    const std::string said = Said(number);
    const Digest key = FrontEndKeyOf(said);
    const Clock::time_point begin = Clock::now();
    const auto fetched = rpc_.Get(client::ByFrontEndKey{key}, kNoInterrupt);
    const double took = MillisecondsSince(begin);
    if (absl::IsNotFound(fetched.status())) return {"miss", true, "", took};
    if (!fetched.ok()) return {"error", false, ToText(fetched.status()), took};
    return {"store", IsRight(fetched->entry, said), "", took};
  }

  Outcome Compile(uint64_t number) override {
    const std::string said = Said(number);
    client::CompileCall call;
    call.graph = GraphThatSays(said);
    call.device_kind = "gaudi2";
    call.front_end = {FrontEndKeyOf(said), {{"graph", said}}, said.substr(0, 100)};
    const Clock::time_point begin = Clock::now();
    const auto compiled = rpc_.Compile(call, options_.timeout, kNoProgress, kNoInterrupt);
    const double took = MillisecondsSince(begin);
    if (!compiled.ok()) return {"error", false, ToText(compiled.status()), took};
    return {Name(compiled->origin), IsRight(compiled->entry, said), "", took};
  }

 private:
  std::string Said(uint64_t number) const { return options_.says + " #" + std::to_string(number); }

  bool IsRight(const store::Entry& entry, const std::string& said) const {
    if (!options_.check) return true;
    const server::CompileOutput wanted = server::FakeOutput(said);
    return entry.blobs.size() == 2 && *entry.blobs[0] == wanted.program &&
           *entry.blobs[1] == wanted.recipes[0];
  }

  const CallerOptions options_;
  client::RpcClient rpc_;
};

// Measures what a server can do when its clients cost nothing.
class RawCaller : public Caller {
 public:
  explicit RawCaller(const CallerOptions& options) : options_(options) {
    connection_ =
        client::Connect(options.servers.endpoints.at(0), options.servers.access, options.timeout)
            .value();
    std::ifstream token(options.servers.access.token_file);
    std::getline(token, token_);
  }

  Outcome Get(uint64_t number) override {
    const Digest key = FrontEndKeyOf(options_.says + " #" + std::to_string(number));
    wire::GetProgramRequest request;
    request.set_front_end_key(std::string(key.begin(), key.end()));
    const Clock::time_point begin = Clock::now();
    grpc::ClientContext context;
    if (!token_.empty()) context.AddMetadata("authorization", "Bearer " + token_);
    context.set_deadline(std::chrono::system_clock::now() + options_.timeout);
    const auto reader = connection_->stub->GetProgram(&context, request);
    wire::ProgramPart part;
    while (reader->Read(&part)) {
    }
    const grpc::Status status = reader->Finish();
    const double took = MillisecondsSince(begin);
    if (!status.ok()) return {"error", false, status.error_message(), took};
    return {"store", true, "", took};
  }

  Outcome Compile(uint64_t) override { return {"error", false, "raw clients only get", 0}; }

 private:
  const CallerOptions options_;
  std::shared_ptr<client::Connection> connection_;
  std::string token_;
};

}  // namespace

std::unique_ptr<Caller> MakeCaller(const CallerOptions& options) {
  if (options.raw) return std::make_unique<RawCaller>(options);
  return std::make_unique<VerifyingCaller>(options);
}

}  // namespace hpu::cluster
