#include "compiler_server/service/upstream/upstream.h"

#include "base/log.h"

namespace hpu::server {
namespace {

// A server that failed is left alone for a second, then for two, up to a minute.
constexpr std::chrono::milliseconds kServerRetryAfter{1000};
// The time limit of one look-up at all servers together, without connecting. A client of ours waits
// for it, and waits no longer than 10 s for an answer.
constexpr std::chrono::milliseconds kFetchPatience{5500};

client::RpcClient::Options ClientOptions(const UpstreamOptions& options,
                                         const std::string& build_id,
                                         const store::TrustedKeys* trusted) {
  client::RpcClient::Options result;
  result.servers.endpoints = options.endpoints;
  result.servers.access = options.access;
  result.servers.retry_after = kServerRetryAfter;
  result.trusted = [trusted] { return trusted->keyring(); };
  result.call_timeout = options.fetch_timeout;
  result.compiler_build_id = build_id;
  // There is no reason to wait for a busy server, because this one can compile as well.
  result.busy_retries = 0;
  return result;
}

}  // namespace

Upstream::Upstream(UpstreamOptions options, std::string build_id, const store::TrustedKeys* trusted)
    : options_(std::move(options)),
      build_id_(std::move(build_id)),
      client_(ClientOptions(options_, build_id_, trusted)) {}

absl::Status Upstream::Interrupted() const {
  if (!stopping_) return absl::OkStatus();
  return Error(absl::StatusCode::kUnavailable, "the compile server is stopping");
}

absl::Status Upstream::Unusable(const char* call, const absl::Status& status) {
  ++failures_;
  const absl::Status unusable = Error(absl::StatusCode::kUnavailable, call, " at ",
                                      client::ToText(options_.endpoints), ": ", ToText(status));
  if (!failing_.exchange(true)) {
    HPU_LOG(kWarning, "other servers cannot be used, compiling here error=" << ToText(unusable));
  }
  return unusable;
}

absl::StatusOr<client::Fetched> Upstream::Fetch(const Digest& front_end_key) {
  std::promise<FetchResult> promise;
  std::shared_future<FetchResult> other;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto [place, is_first] = fetches_.try_emplace(front_end_key);
    if (is_first) {
      place->second = promise.get_future().share();
    } else {
      other = place->second;
    }
  }
  if (other.valid()) return other.get();
  FetchResult result = absl::UnknownError("");
  // Whoever waits must be answered, even when memory runs out.
  try {
    result = FetchOnce(front_end_key);
  } catch (const std::exception& error) {
    result = Unusable("Get", Internal(error.what()));
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    fetches_.erase(front_end_key);
  }
  promise.set_value(result);
  return result;
}

Upstream::FetchResult Upstream::FetchOnce(const Digest& front_end_key) {
  const auto deadline = std::chrono::steady_clock::now() + kFetchPatience;
  const client::Interrupt interrupt = [&]() -> absl::Status {
    if (std::chrono::steady_clock::now() < deadline) return Interrupted();
    return Error(absl::StatusCode::kDeadlineExceeded, "no server answered in time");
  };
  absl::StatusOr<client::Fetched> fetched =
      client_.Get(client::ByFrontEndKey{front_end_key}, interrupt);
  if (fetched.ok() && fetched->entry.manifest.content.compiler_build_id != build_id_) {
    return Unusable("Get", Error(absl::StatusCode::kFailedPrecondition,
                                 "it answered with the program of another compiler"));
  }
  if (!fetched.ok() && !absl::IsNotFound(fetched.status())) {
    return Unusable("Get", fetched.status());
  }
  ++(fetched.ok() ? hits_ : misses_);
  if (failing_.exchange(false)) HPU_LOG(kInfo, "other servers can be used again");
  return fetched;
}

absl::StatusOr<client::Compiled> Upstream::Ask(const CompileJob& job, bool frozen,
                                               std::chrono::milliseconds timeout,
                                               const ProgressFunction& progress) {
  const client::CompileCall call{.graph = job.input.graph,
                                 .options = job.content.options,
                                 .device_kind = job.content.device_kind,
                                 .isa_level = job.content.isa_level,
                                 .skip_cache_lookup = job.skip_cache_lookup,
                                 .front_end = job.front_end,
                                 .warm_up = job.warm_up,
                                 .frozen = frozen};
  const client::ProgressSink sink = [&](const client::Progress& now) {
    progress({now.stage, now.done, now.total});
    return absl::OkStatus();
  };
  absl::StatusOr<client::Compiled> compiled =
      client_.Compile(call, timeout, sink, [this] { return Interrupted(); });
  if (compiled.ok() && compiled->entry.manifest.key() != job.key) {
    return Unusable("Compile", Error(absl::StatusCode::kFailedPrecondition,
                                     "it answered with the program of another compiler"));
  }
  const bool missed = absl::IsNotFound(compiled.status());  // the server is there, and frozen
  if (!compiled.ok() && !missed && !client::IsVerdict(compiled.status())) {
    return Unusable("Compile", compiled.status());
  }
  if (failing_.exchange(false)) HPU_LOG(kInfo, "other servers can be used again");
  return compiled;
}

absl::StatusOr<store::Entry> Upstream::FetchContent(const CompileJob& job) {
  absl::StatusOr<client::Compiled> found =
      Ask(job, /*frozen=*/true, options_.fetch_timeout, [](const CompileProgress&) {});
  ++(found.ok() ? hits_ : misses_);
  if (!found.ok()) return found.status();
  return std::move(found->entry);
}

absl::StatusOr<CompileResult> Upstream::Compile(const CompileJob& job,
                                                std::chrono::milliseconds timeout,
                                                const ProgressFunction& progress) {
  absl::StatusOr<client::Compiled> compiled = Ask(job, /*frozen=*/false, timeout, progress);
  if (absl::IsNotFound(compiled.status()) && !client::IsVerdict(compiled.status())) {
    ++misses_;
    return Error(absl::StatusCode::kUnavailable, "servers upstream have no such program and are ",
                 "frozen");
  }
  RETURN_IF_ERROR(compiled.status());
  const bool from_store = compiled->origin == client::Origin::kStore;
  ++(from_store ? hits_ : compiled_);
  return CompileResult{std::move(compiled->entry), from_store};
}

absl::StatusOr<client::ListPage> Upstream::List(const client::ListQuery& query) {
  absl::StatusOr<client::ListPage> page = client_.List(query, [this] { return Interrupted(); });
  // That server has no other servers to ask.
  const bool is_end = query.upstream > 0 && absl::IsNotFound(page.status());
  if (!page.ok() && !is_end) return Unusable("List", page.status());
  return page;
}

void Upstream::AddCounters(std::map<std::string, uint64_t>& counters) const {
  counters["upstream.hits"] += hits_;
  counters["upstream.misses"] += misses_;
  counters["upstream.compiled"] += compiled_;
  counters["upstream.failures"] += failures_;
}

}  // namespace hpu::server
