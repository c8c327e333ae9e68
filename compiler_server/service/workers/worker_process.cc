#include "compiler_server/service/workers/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "compiler_server/service/workers/worker_main.h"
#include "worker.pb.h"

namespace hpu::server {
namespace {

// posix_spawn runs no atfork handlers, which matters in a process with gRPC's threads.
absl::StatusOr<pid_t> Spawn(const std::vector<std::string>& command, int socket) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, socket, kWorkerSocket);
  posix_spawn_file_actions_addclosefrom_np(&actions, kWorkerSocket + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0;
  const int error =
      posix_spawn(&pid, command[0].c_str(), &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return pid;
  return Error(absl::StatusCode::kUnavailable, "starting compile worker ", command[0], ": ",
               std::strerror(error));
}

wire::WorkerRequest ToRequest(const CompileInput& input, unsigned threads) {
  wire::WorkerRequest request;
  request.set_graph(input.graph);
  for (const auto& [name, value] : input.options) {
    wire::CompileOption* option = request.add_options();
    option->set_name(name);
    option->set_value(value);
  }
  request.set_device_kind(input.device_kind);
  request.set_isa_level(input.isa_level);
  request.set_threads(threads);
  return request;
}

std::string HowItEnded(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return "exited with code " + std::to_string(info.si_status);
  const char* name = sigdescr_np(info.si_status);
  return "was ended by signal " + std::to_string(info.si_status) + " (" +
         (name == nullptr ? "unknown" : name) + ")";
}

CompileOutput ToOutput(const wire::WorkerReply::Result& result) {
  CompileOutput output;
  output.program.assign(result.program().begin(), result.program().end());
  for (const std::string& recipe : result.recipes()) {
    output.recipes.emplace_back(recipe.begin(), recipe.end());
  }
  return output;
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::Start(
    std::vector<std::string> command, uint64_t memory_bytes) {
  HPU_CHECK(!command.empty(), "a worker needs a program");
  command.insert(command.end(), {"--worker-memory", std::to_string(memory_bytes)});
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Error(absl::StatusCode::kUnavailable, "socket pair: ", std::strerror(errno));
  }
  // dup2 onto itself would keep close-on-exec, so the worker's end must not have that number here.
  if (ends[1] == kWorkerSocket) {
    const int moved = fcntl(ends[1], F_DUPFD_CLOEXEC, kWorkerSocket + 1);
    close(ends[1]);
    ends[1] = moved;
  }
  const absl::StatusOr<pid_t> pid = Spawn(command, ends[1]);
  close(ends[1]);
  if (!pid.ok()) {
    close(ends[0]);
    return pid.status();
  }
  return std::unique_ptr<WorkerProcess>(new WorkerProcess(*pid, ends[0], memory_bytes));
}

WorkerProcess::~WorkerProcess() {
  if (!dead_) Bury();
}

absl::StatusOr<CompileOutput> WorkerProcess::Compile(const CompileInput& input, unsigned threads,
                                                     const ProgressFunction& progress,
                                                     std::chrono::milliseconds time_limit) {
  HPU_CHECK(!dead_, "a dead worker cannot compile");
  absl::StatusOr<CompileOutput> output =
      Converse(ToRequest(input, threads), progress, std::chrono::steady_clock::now() + time_limit);
  if (!dead_) return output;
  const siginfo_t end = Bury();
  if (killed_) return Error(absl::StatusCode::kCancelled, "the compilation was stopped");
  if (absl::IsDeadlineExceeded(output.status())) {
    return Error(absl::StatusCode::kDeadlineExceeded, "the compilation took longer than ",
                 time_limit.count(), " ms and was stopped");
  }
  if (end.si_code == CLD_EXITED && end.si_status == kExitOutOfMemory) {
    return Error(absl::StatusCode::kResourceExhausted,
                 "the compilation needs more memory than a compile worker may take: ",
                 memory_bytes_ >> 20, " MiB of address space (--worker-memory of the server)");
  }
  return Internal("the compile worker ", HowItEnded(end), " while compiling (",
                  ToText(output.status()), ")");
}

absl::StatusOr<CompileOutput> WorkerProcess::Converse(const wire::WorkerRequest& request,
                                                      const ProgressFunction& progress,
                                                      Deadline deadline) {
  absl::Status status = channel_.Send(request, deadline);
  while (status.ok()) {
    wire::WorkerReply reply;
    status = channel_.Receive(&reply, deadline);
    if (!status.ok()) break;
    switch (reply.reply_case()) {
      case wire::WorkerReply::kProgress:
        progress({reply.progress().stage(), reply.progress().done(), reply.progress().total()});
        break;
      case wire::WorkerReply::kResult:
        return ToOutput(reply.result());
      case wire::WorkerReply::kFailure:
        if (reply.failure().code() != 0) {
          return absl::Status(static_cast<absl::StatusCode>(reply.failure().code()),
                              reply.failure().message());
        }
        [[fallthrough]];
      case wire::WorkerReply::REPLY_NOT_SET:
        status = DataLoss("the worker answered without a result");
    }
  }
  dead_ = true;  // or it is out of step with us, which is the same
  return status;
}

bool WorkerProcess::CheckAlive() {
  if (dead_) return false;
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  if (info.si_pid != 0) Bury();
  return !dead_;
}

void WorkerProcess::Kill() {
  std::lock_guard<std::mutex> lock(mutex_);
  killed_ = true;
  if (!reaped_) kill(pid_, SIGKILL);
}

siginfo_t WorkerProcess::Bury() {
  // A worker that closed its end by itself (crash, exit) gets the moment it needs to finish dying,
  // so that the message can say how it ended. Any other worker is killed.
  siginfo_t info{};
  for (int i = 0; i < 50 && dead_ && !killed_; ++i) {
    waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
    if (info.si_pid != 0) break;
    usleep(1000);
  }
  kill(pid_, SIGKILL);
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  // Up to here the process id cannot belong to another process.
  std::lock_guard<std::mutex> lock(mutex_);
  waitpid(pid_, nullptr, 0);
  reaped_ = true;
  dead_ = true;
  return info;
}

}  // namespace hpu::server
