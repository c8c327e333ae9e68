#include "compiler_server/service/server_flags.h"

#include <sstream>

#include "base/regular_file.h"
#include "compiler_server/service/admin/audit_log.h"
#include "proto/tls_files.h"
#include "recipe_store/signing/keyring.h"

namespace hpu::server {
namespace {

constexpr size_t kMaxConfigBytes = 1 << 20;

// Returns what CLI11 does not report: the line of a name that is no option, or one that is only for
// the command line. Empty if there is none.
std::string UnknownOptions(const CLI::App& app, const std::string& file) {
  const absl::StatusOr<std::string> text = ReadRegularFile(file, kMaxConfigBytes);
  if (!text.ok()) return std::string(text.status().message());
  std::istringstream in(*text);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const std::string name = CLI::detail::trim_copy(line.substr(0, line.find('=')));
    if (name.empty() || name[0] == '#') continue;
    const CLI::Option* option = app.get_option_no_throw("--" + name);
    if (option != nullptr && option->get_configurable()) continue;
    return file + " line " + std::to_string(number) + ": '" + name + "' is no option of the server";
  }
  return "";
}

void DeclareNetwork(CLI::App& app, ServerFlags& flags) {
  app.add_option("--listen", flags.listen,
                 "addresses for other hosts, separated by commas: tls://HOST:PORT, or "
                 "tcp://127.0.0.1:PORT for this host");
  DeclarePath(app, "--callers", flags.network.callers_file,
              "file of callers over the network, a line NAME TENANT ROLES CREDENTIAL each");
  DeclarePath(app, "--tls-certificate", flags.network.certificate_file,
              "the server's certificate chain, PEM");
  DeclarePath(app, "--tls-key", flags.network.key_file, "its key, PEM");
  DeclarePath(app, "--tls-client-ca", flags.network.client_ca_file,
              "authorities, PEM; clients must show a certificate that one of them has signed");
  app.add_option("--share-programs", flags.share_programs,
                 "whether tenants that send the same graph share its program: none, all")
      ->check(CLI::IsMember({"none", "all"}));
  DeclarePath(
      app, "--audit-log", flags.audit_file,
      "file that records who compiled, pinned, removed, imported and was refused, a JSON object a "
      "line");
  app.add_option(
      "--metrics", flags.metrics_address,
      "HOST:PORT of a page for Prometheus (http://HOST:PORT/metrics), without protection");
}

void DeclareUpstream(CLI::App& app, ServerFlags& flags) {
  app.add_option("--upstream", flags.upstream_addresses,
                 "servers that are asked before compiling here, separated by commas");
  DeclarePath(app, "--upstream-ca", flags.upstream.access.ca_file,
              "authorities, PEM, that those servers' certificates are checked with");
  DeclarePath(app, "--upstream-certificate", flags.upstream.access.certificate_file,
              "certificate, PEM, that is shown to them");
  DeclarePath(app, "--upstream-key", flags.upstream.access.key_file, "its key, PEM");
  DeclarePath(app, "--upstream-token", flags.upstream.access.token_file,
              "file whose first line is the token that is sent to them");
  app.add_option("--upstream-hedge", flags.upstream_hedge_ms,
                 "milliseconds to wait for those servers before compiling begins here as well; "
                 "0 = no limit")
      ->check(CLI::Range(0, 60'000));
  DeclarePath(app, "--trusted-keys", flags.store.trusted_keys,
              "folder of public keys: programs signed by NAME.pub are trusted, those signed by "
              "NAME.revoked are not");
}

std::vector<std::string> WorkerCommand(const ServerFlags& flags) {
  return {"/proc/self/exe", "--worker",
          "--workers",      std::to_string(flags.workers),
          "--log-level",    std::to_string(flags.log_level)};
}

}  // namespace

void DeclareFlags(CLI::App& app, ServerFlags& flags) {
  app.option_defaults()->always_capture_default();
  app.set_config("--config", "", "file of these options, a line NAME = \"VALUE\" each")
      ->check([&app](const std::string& file) { return UnknownOptions(app, file); });
  app.add_flag("--check-config", flags.check_config,
               "report what is wrong with the options and end")
      ->configurable(false);
  DeclareNetwork(app, flags);
  DeclareUpstream(app, flags);
  DeclareEngines(app, flags.engines);
  DeclarePath(app, "--cache-dir", flags.cache_dir,
              "folder of the socket, the store and the log, unless these are given");
  DeclarePath(app, "--socket", flags.socket,
              "unix socket to listen on (CACHE_DIR/run/server.sock)");
  DeclarePath(app, "--store", flags.store.folder,
              "folder of stored programs and keys (CACHE_DIR/store)");
  DeclarePath(app, "--log-file", flags.log_file, "log (CACHE_DIR/server.log)");
  app.add_option("--max-size", flags.store.max_bytes, "bytes the store may take, e.g. 10GB")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--tenant-max-size", flags.store.tenant_bytes,
                 "bytes of the store that one tenant may take, e.g. 1GB; 0 = any")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--memory-size", flags.store.memory_bytes, "bytes of programs kept in memory")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--worker-memory", flags.worker_memory,
                 "address space of one compile worker; 0 = no limit")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--idle-timeout", flags.idle_timeout_s,
                 "end after this many seconds without requests; 0 = never")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--compile-timeout", flags.compile_timeout_s, "seconds one compilation may take")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--stop-grace", flags.stop_grace_s,
                 "seconds running compilations are given when the server stops")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--frozen", flags.frozen, "answer from the store, compile nothing");
  app.add_option("--max-waiting", flags.queue.max_waiting, "compilations that may wait");
  app.add_option("--max-waiting-of-tenant", flags.queue.max_waiting_of_tenant,
                 "requests of one tenant that may wait");
  app.add_option("--max-request-size", flags.queue.max_request_bytes,
                 "bytes of graphs of requests that wait, e.g. 1GB")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--tenant-compile-seconds", flags.tenant_compile_seconds,
                 "seconds of compiling that a tenant may have per hour; 0 = any")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--workers", flags.workers, "compilations at a time")->check(CLI::Range(1, 256));
  app.add_option("--log-level", flags.log_level, "0 trace .. 4 error, 6 off")
      ->check(CLI::Range(0, 6));
  app.add_flag("--foreground", flags.foreground, "log to standard error instead of the file");
  app.add_flag("--daemon", flags.daemon,
               "go on in the background; prints \"ready\" when the socket can be used")
      ->configurable(false);
  app.add_flag("--memory-only", flags.memory_only, "keep programs in memory, never on disk");
  app.add_flag("--print-build-id", flags.print_build_id, "print the compiler's build id and end")
      ->configurable(false);
  app.add_flag("--worker", flags.worker, "be a compile worker (started by the server itself)")
      ->configurable(false);
}

std::string PlaceOfError(const std::string& file, const std::vector<std::string>& arguments,
                         const std::string& error) {
  if (file.empty() || !error.starts_with("--")) return "";
  const std::string name = error.substr(2, error.find(':') - 2);
  for (const std::string& argument : arguments) {
    if (argument == "--" + name || argument.starts_with("--" + name + "=")) return "";
  }
  std::istringstream in(ReadRegularFile(file, kMaxConfigBytes).value_or(""));
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (CLI::detail::trim_copy(line.substr(0, line.find('='))) == name) {
      return file + " line " + std::to_string(number) + ": ";
    }
  }
  return "";
}

absl::Status CompleteFlags(ServerFlags& flags) {
  if (flags.cache_dir.empty() && (flags.socket.empty() || flags.store.folder.empty())) {
    return InvalidArgument("give --cache-dir, or --socket and --store");
  }
  if (!flags.cache_dir.empty()) {
    if (flags.socket.empty()) flags.socket = flags.cache_dir + "/run/server.sock";
    if (flags.store.folder.empty()) flags.store.folder = flags.cache_dir + "/store";
    if (flags.log_file.empty()) flags.log_file = flags.cache_dir + "/server.log";
  }
  if (flags.memory_only) flags.store.folder.clear();
  if (!flags.listen.empty()) {
    ASSIGN_OR_RETURN(flags.network.listen, client::ParseEndpoints(flags.listen));
  }
  if (!flags.upstream_addresses.empty()) {
    ASSIGN_OR_RETURN(flags.upstream.endpoints, client::ParseEndpoints(flags.upstream_addresses));
  }
  const std::string& certificate = flags.upstream.access.certificate_file;
  if (certificate.empty() != flags.upstream.access.key_file.empty()) {
    return InvalidArgument("--upstream-certificate and --upstream-key belong together");
  }
  if (!certificate.empty()) {
    RETURN_IF_ERROR(ExpiryOfChain("upstream-certificate", certificate).status());
  }
  RETURN_IF_ERROR(CompleteEngines(flags.engines, flags.store));
  RETURN_IF_ERROR(CheckNetwork(flags.network));
  if (flags.network.callers_file.empty()) return absl::OkStatus();
  return CallerTable::Load(flags.network.callers_file).status();
}

absl::Status CheckFiles(const ServerFlags& flags) {
  RETURN_IF_ERROR(UnixListener::CheckPath(flags.socket));
  if (!flags.upstream.endpoints.empty()) RETURN_IF_ERROR(CheckAccess(flags.upstream.access));
  RETURN_IF_ERROR(CheckEngineFiles(flags.engines));
  RETURN_IF_ERROR_AT(store::TrustedKeys({}, flags.store.trusted_keys).Reload().status(),
                     "--trusted-keys");
  return AuditLog::Check(flags.audit_file);
}

ServerOptions ToOptions(const ServerFlags& flags, std::string build_id) {
  ServerOptions options;
  options.socket_path = flags.socket;
  options.build_id = std::move(build_id);
  options.store = flags.store;
  options.upstream = flags.upstream;
  options.upstream.hedge_after = std::chrono::milliseconds(flags.upstream_hedge_ms);
  options.config_file = flags.config_file;
  options.network = flags.network;
  options.metrics_address = flags.metrics_address;
  options.audit_file = flags.audit_file;
  options.share_programs = flags.share_programs == "all";
  options.frozen = flags.frozen;
  options.queue = flags.queue;
  options.queue.tenant_budget = std::chrono::seconds(flags.tenant_compile_seconds);
  options.queue.workers = flags.workers;
  options.queue.threads = std::max(1U, std::thread::hardware_concurrency());
  options.queue.time_limit =
      std::chrono::milliseconds(static_cast<int64_t>(flags.compile_timeout_s * 1000));
  options.queue.worker_command = WorkerCommand(flags);
  options.queue.worker_memory_bytes = flags.worker_memory;
  options.idle_timeout = std::chrono::seconds(flags.idle_timeout_s);
  options.stop_grace = std::chrono::seconds(flags.stop_grace_s);
  return options;
}

}  // namespace hpu::server
