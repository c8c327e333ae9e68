#include "backend/client/daemon.h"

#include <filesystem>
#include <thread>

#include "backend/client/file_lock.h"
#include "backend/client/server_paths.h"
#include "backend/client/spawn.h"
#include "compile_client/connection.h"
#include "recipe_store/signing/build_id.h"

namespace hpu::client {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kHelloTimeout{2000};
// A server whose socket was removed listens again within a second.
constexpr std::chrono::milliseconds kListenPatience{2000};
// A server that accepts connections but never answers is suspended or hangs.
constexpr std::chrono::milliseconds kAnswerPatience{6000};
constexpr std::chrono::milliseconds kPoll{10};

absl::StatusOr<ServerInfo> SayHello(const std::string& socket, const Interrupt& interrupt) {
  RpcClient::Options options = LocalServer(socket);
  options.call_timeout = kHelloTimeout;
  return RpcClient(std::move(options)).Hello(interrupt);
}

class Starter {
 public:
  Starter(const DaemonOptions& options, ServerPaths paths, std::string build_id,
          const Interrupt& interrupt)
      : options_(options),
        paths_(std::move(paths)),
        build_id_(std::move(build_id)),
        interrupt_(interrupt),
        deadline_(Clock::now() + options.start_timeout) {}

  absl::StatusOr<std::string> Run() {
    if (IsOurs(SayHello(paths_.socket, interrupt_))) return paths_.socket;
    FileLock starting(paths_.socket + ".start");
    RETURN_IF_ERROR(starting.Take(deadline_, interrupt_));
    // From here on no other client starts or replaces a server.
    while (true) {
      ASSIGN_OR_RETURN(const bool running, AwaitOtherServers());
      if (running) return paths_.socket;
      const absl::Status spawned = Spawn();
      if (spawned.ok()) break;
      // A server that is started by hand takes no start lock, so it may have come first.
      if (!RunningServer(paths_.socket).has_value() || Clock::now() >= deadline_) return spawned;
    }
    const absl::StatusOr<ServerInfo> started = SayHello(paths_.socket, interrupt_);
    if (IsOurs(started)) return paths_.socket;
    RETURN_IF_ERROR(started.status());
    return Error(absl::StatusCode::kUnavailable, "the server that started has build ",
                 started->build_id.substr(0, 16), ", its files have ", build_id_.substr(0, 16),
                 ": they changed in between, try again");
  }

 private:
  bool IsOurs(const absl::StatusOr<ServerInfo>& info) const {
    if (!info.ok() || info->build_id != build_id_) return false;
    return (options_.upstream.empty() || !info->upstream.empty()) &&
           (options_.config_file.empty() || !info->config_file.empty());
  }

  // Returns true if a server of our build answers (another process has started it in the meantime),
  // and false if there is none and the place is free. A server of another build is asked to stop.
  // One that is stopping gets all the time that is left; one that does not answer gets
  // kAnswerPatience from the arrival of this client, and one that does not even listen gets
  // kListenPatience.
  absl::StatusOr<bool> AwaitOtherServers() {
    // A server holds this from before it listens until it has left the store.
    FileLock serving(paths_.socket + ".lock");
    Clock::time_point last_listening = Clock::now();
    while (true) {
      const absl::StatusOr<ServerInfo> running = SayHello(paths_.socket, interrupt_);
      if (IsOurs(running)) return true;
      RETURN_IF_ERROR(interrupt_());
      // FAILED_PRECONDITION means that it speaks another version of the protocol.
      const bool answers = running.ok() || absl::IsFailedPrecondition(running.status());
      if (answers) RETURN_IF_ERROR(StopOther());
      ASSIGN_OR_RETURN(const bool place_is_free, serving.Try());
      if (place_is_free) return false;
      const auto holder = RunningServer(paths_.socket);
      if (ConnectUnix(paths_.socket).ok() || !holder.has_value() || holder->stopping) {
        last_listening = Clock::now();
      }
      if (answers || !holder.has_value() || holder->stopping) last_answer_ = Clock::now();
      if (Clock::now() - last_answer_ >= kAnswerPatience) {
        return Error(absl::StatusCode::kUnavailable, "the compile server at ", paths_.socket,
                     " does not answer (", ToText(running.status()), "); its log is ", paths_.log,
                     Remedy(holder));
      }
      if (Clock::now() - last_listening >= kListenPatience) {
        return Error(absl::StatusCode::kUnavailable, "process ", holder->pid, " holds ",
                     paths_.socket, ".lock and does not listen there; its log is ", paths_.log,
                     "; end it: kill -9 ", holder->pid);
      }
      if (Clock::now() >= deadline_) {
        return Error(absl::StatusCode::kUnavailable, "the compile server at ", paths_.socket,
                     " neither answers as build ", build_id_.substr(0, 16), " nor ends (",
                     running.ok() ? "it has another build" : ToText(running.status()),
                     "); its log is ", paths_.log, Remedy(holder));
      }
      std::this_thread::sleep_for(kPoll);
    }
  }

  static std::string Remedy(const std::optional<ServerProcess>& holder) {
    if (!holder.has_value()) return "";
    return "; if it hangs, end it: kill -9 " + std::to_string(holder->pid);
  }

  absl::Status StopOther() {
    RpcClient::Options options = LocalServer(paths_.socket);
    options.call_timeout = kHelloTimeout;
    const absl::Status asked =
        RpcClient(std::move(options))
            .Shutdown("replaced by build " + build_id_.substr(0, 16), interrupt_);
    // A server that went away by itself has done what was asked.
    return IsServerUnavailable(asked) ? absl::OkStatus() : asked;
  }

  absl::Status Spawn() {
    std::vector<std::string> command = {options_.server_binary,
                                        "--daemon",
                                        "--cache-dir",
                                        paths_.state_dir,
                                        "--socket",
                                        paths_.socket,
                                        "--store",
                                        paths_.store,
                                        "--log-file",
                                        paths_.log,
                                        "--log-level",
                                        std::to_string(options_.log_level),
                                        "--compile-timeout",
                                        std::to_string(options_.compile_timeout_s),
                                        "--idle-timeout",
                                        std::to_string(options_.idle_timeout.count())};
    if (!options_.upstream.empty()) {
      command.insert(command.end(), {"--upstream", options_.upstream});
    }
    if (!options_.config_file.empty()) {
      command.insert(command.end(), {"--config", options_.config_file});
    }
    return SpawnDaemon(command, paths_.log, deadline_, interrupt_);
  }

  const DaemonOptions& options_;
  const ServerPaths paths_;
  const std::string build_id_;
  const Interrupt& interrupt_;
  const Clock::time_point deadline_;
  Clock::time_point last_answer_ = Clock::now();
};

absl::StatusOr<std::string> Ensure(const DaemonOptions& options, const Interrupt& interrupt) {
  DaemonOptions resolved = options;
  std::error_code error;
  resolved.server_binary = std::filesystem::canonical(options.server_binary, error).string();
  if (error) {
    return NotFound("compile server ", options.server_binary, ": ", error.message());
  }
  ASSIGN_OR_RETURN(ServerPaths paths, MakeServerPaths(options.cache_dir));
  ASSIGN_OR_RETURN(
      std::string build_id,
      store::BuildId(store::CompilerFiles(resolved.server_binary), paths.state_dir + "/build_id"));
  return Starter(resolved, std::move(paths), std::move(build_id), interrupt).Run();
}

}  // namespace

absl::StatusOr<std::string> EnsureServer(const DaemonOptions& options, const Interrupt& interrupt) {
  absl::StatusOr<std::string> socket = Ensure(options, interrupt);
  if (!socket.ok()) return ServerUnavailable(socket.status());
  return socket;
}

}  // namespace hpu::client
