#include "compiler_server/service/server_main.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <thread>

#include "base/log.h"
#include "base/regular_file.h"
#include "compiler_server/service/admin/audit_log.h"
#include "compiler_server/service/compile_server.h"
#include "compiler_server/service/engine_flags.h"
#include "compiler_server/service/service_manager.h"
#include "compiler_server/service/workers/worker_main.h"
#include "proto/options_generated.h"
#include "proto/tls_files.h"
#include "recipe_store/signing/build_id.h"
#include "recipe_store/signing/keyring.h"

namespace hpu::server {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitAlreadyRunning = 3;
constexpr size_t kMaxConfigBytes = 1 << 20;

struct Flags {
  std::string cache_dir;
  std::string socket;
  store::StoreConfig store;
  std::string listen;
  NetworkOptions network;
  std::string metrics_address;
  std::string audit_file;
  std::string share_programs = "none";
  QueueOptions queue;
  int tenant_compile_seconds = 0;
  bool frozen = false;
  EngineFlags engines;
  std::string upstream_addresses;
  std::string config_file;
  UpstreamOptions upstream;
  int upstream_hedge_ms = static_cast<int>(UpstreamOptions{}.hedge_after.count());
  std::string log_file;
  uint64_t worker_memory = QueueOptions{}.worker_memory_bytes;
  int idle_timeout_s = 15 * 60;
  double compile_timeout_s = default_options::compile_timeout_s;
  int stop_grace_s = 10;
  int workers = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  int log_level = static_cast<int>(LogLevel::kInfo);
  bool foreground = false;
  bool daemon = false;
  bool memory_only = false;
  bool worker = false;
  bool print_build_id = false;
  bool check_config = false;
};

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

// Returns the place in `file` of the option that an error is about ("--NAME: ..."), as
// "FILE line N: ". It is empty if the option was given in `arguments`, which override the file, or
// if it cannot be found.
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

void DeclareNetwork(CLI::App& app, Flags& flags) {
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

void DeclareUpstream(CLI::App& app, Flags& flags) {
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

void Declare(CLI::App& app, Flags& flags) {
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

// Makes the folders of the server's own files. The socket has a folder of its own, because the
// cache folder itself may be open to others.
void MakeFolders(const Flags& flags) {
  if (flags.cache_dir.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(flags.cache_dir).parent_path(), error);
  mkdir(flags.cache_dir.c_str(), 0700);
  const std::string run = flags.cache_dir + "/run";
  if (flags.socket == run + "/server.sock") mkdir(run.c_str(), 0700);
}

// Derives the paths that were not given from the cache folder.
absl::Status Complete(Flags& flags) {
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

// --check-config looks at these files as well: a server would start without some of them, and
// report the others only when it starts.
absl::Status CheckFiles(const Flags& flags) {
  RETURN_IF_ERROR(UnixListener::CheckPath(flags.socket));
  if (!flags.upstream.endpoints.empty()) RETURN_IF_ERROR(CheckAccess(flags.upstream.access));
  RETURN_IF_ERROR(CheckEngineFiles(flags.engines));
  RETURN_IF_ERROR_AT(store::TrustedKeys({}, flags.store.trusted_keys).Reload().status(),
                     "--trusted-keys");
  return AuditLog::Check(flags.audit_file);
}

absl::StatusOr<std::string> OwnBuildId(const Flags& flags) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return Internal("/proc/self/exe: ", error.message());
  const std::string cache_file = flags.cache_dir.empty() ? "" : flags.cache_dir + "/build_id";
  return store::BuildId(store::CompilerFiles(program.string()), cache_file);
}

std::vector<std::string> WorkerCommand(const Flags& flags) {
  return {"/proc/self/exe", "--worker",
          "--workers",      std::to_string(flags.workers),
          "--log-level",    std::to_string(flags.log_level)};
}

ServerOptions ToOptions(const Flags& flags, std::string build_id) {
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

// Turns signals into stop requests during its lifetime. The signals must be blocked in all threads.
class SignalWaiter {
 public:
  SignalWaiter(const sigset_t& signals, CompileServer* server)
      : thread_([signals, server] {
          int signal = 0;
          sigwait(&signals, &signal);
          server->RequestStop(std::string("signal ") + std::to_string(signal));
        }) {}
  ~SignalWaiter() {
    // This ends the wait if no signal came.
    pthread_kill(thread_.native_handle(), SIGTERM);
    thread_.join();
  }

 private:
  std::thread thread_;
};

// Continues in a child process while the caller's process ends. It must be called before any thread
// exists.
void Detach() {
  const pid_t child = fork();
  if (child != 0) _exit(child > 0 ? 0 : kExitFailed);
  // The current folder may be one that others want to remove or unmount.
  if (chdir("/") != 0) HPU_LOG(kDebug, "chdir failed");
}

// Reports to the starting process, which reads our standard output, and lets go of it.
void ReportReady() {
  constexpr std::string_view kReady = "ready\n";
  if (write(STDOUT_FILENO, kReady.data(), kReady.size()) < 0) HPU_LOG(kDebug, "nobody waits");
  dup2(STDERR_FILENO, STDOUT_FILENO);
}

// A user's daemon does not report: it inherits the socket of whichever service started it.
void Tell(const std::string& state) {
  if (const absl::Status told = TellServiceManager(state); !told.ok()) {
    HPU_LOG(kWarning, ToText(told));
  }
}

// Writes to the log and to the process that started us, because the log may be what cannot be
// written.
void ReportFailure(const std::string& text) {
  HPU_LOG(kError, "server not started error=" << text);
  if (write(STDOUT_FILENO, text.data(), text.size()) < 0) HPU_LOG(kDebug, "nobody waits");
}

int Serve(const Flags& flags) {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  // A write beyond `ulimit -f` must fail as one on a full disk does.
  signal(SIGXFSZ, SIG_IGN);

  absl::StatusOr<std::string> build_id = OwnBuildId(flags);
  if (!build_id.ok()) {
    ReportFailure("no build id: " + ToText(build_id.status()));
    return kExitFailed;
  }
  absl::StatusOr<std::unique_ptr<CompileServer>> server =
      CompileServer::Start(ToOptions(flags, *std::move(build_id)));
  if (!server.ok()) {
    ReportFailure(ToText(server.status()));
    return absl::IsAlreadyExists(server.status()) ? kExitAlreadyRunning : kExitFailed;
  }
  if (flags.daemon) ReportReady();
  if (!flags.daemon) Tell("READY=1");
  {
    const SignalWaiter waiter(signals, server->get());
    const std::string reason = (*server)->WaitForStopRequest();
    HPU_LOG(kInfo, "stopping reason=" << reason);
    if (!flags.daemon) Tell("STOPPING=1");
  }
  (*server)->Stop();
  HPU_LOG(kInfo, "stopped");
  return 0;
}

}  // namespace

int ServerMain(int argc, char** argv, const BackendFactory& factory) {
  Flags flags;
  CLI::App app("Compile server: compiles PyTorch graphs to Gaudi programs and keeps them.");
  Declare(app, flags);
  // The error is one line, which is the last one of the log where nobody sees standard error.
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  app.failure_message([&](const CLI::App* failed, const CLI::Error& error) {
    const auto files = failed->get_config_ptr()->results();
    return PlaceOfError(files.empty() ? "" : files.back(), arguments, error.what()) + error.what() +
           "; --help lists the options\n";
  });
  CLI11_PARSE(app, argc, argv);
  flags.config_file = app.get_config_ptr()->as<std::string>();
  // Files that the server makes are readable by their owner only.
  umask(077);
  const auto level = static_cast<LogLevel>(flags.log_level);
  if (flags.worker) {
    ConfigureLog("worker", level, "");
    return RunWorker(factory, {flags.worker_memory});
  }
  if (flags.print_build_id) {
    const absl::StatusOr<std::string> build_id = OwnBuildId(flags);
    std::cout << (build_id.ok() ? *build_id : ToText(build_id.status())) << '\n';
    return build_id.ok() ? 0 : kExitFailed;
  }
  if (absl::Status complete = Complete(flags); !complete.ok()) {
    std::cerr << ToText(complete) << '\n';
    return kExitFailed;
  }
  if (flags.check_config) {
    if (const absl::Status files = CheckFiles(flags); !files.ok()) {
      std::cerr << ToText(files) << '\n';
      return kExitFailed;
    }
    std::cout << "the options are good\n";
    return 0;
  }
  MakeFolders(flags);
  if (flags.daemon) Detach();
  ConfigureLog("server", level, flags.foreground ? "" : flags.log_file);
  return Serve(flags);
}

}  // namespace hpu::server
