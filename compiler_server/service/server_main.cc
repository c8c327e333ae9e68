#include "compiler_server/service/server_main.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <thread>

#include "base/log.h"
#include "compiler_server/service/compile_server.h"
#include "compiler_server/service/server_flags.h"
#include "compiler_server/service/service_manager.h"
#include "compiler_server/service/workers/worker_main.h"
#include "recipe_store/signing/build_id.h"

namespace hpu::server {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitAlreadyRunning = 3;

// Makes the folders of the server's own files. The socket has a folder of its own, because the
// cache folder itself may be open to others.
void MakeFolders(const ServerFlags& flags) {
  if (flags.cache_dir.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(flags.cache_dir).parent_path(), error);
  mkdir(flags.cache_dir.c_str(), 0700);
  const std::string run = flags.cache_dir + "/run";
  if (flags.socket == run + "/server.sock") mkdir(run.c_str(), 0700);
}

absl::StatusOr<std::string> OwnBuildId(const ServerFlags& flags) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return Internal("/proc/self/exe: ", error.message());
  const std::string cache_file = flags.cache_dir.empty() ? "" : flags.cache_dir + "/build_id";
  return store::BuildId(store::CompilerFiles(program.string()), cache_file);
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

int Serve(const ServerFlags& flags) {
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
  ServerFlags flags;
  CLI::App app("Compile server: compiles PyTorch graphs to Gaudi programs and keeps them.");
  DeclareFlags(app, flags);
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
  if (absl::Status complete = CompleteFlags(flags); !complete.ok()) {
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
