// A compiler in a process of its own: whatever it does, the server lives.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "compiler_server/service/workers/compile_backend.h"
#include "compiler_server/service/workers/frame_channel.h"

namespace hpu::wire {
class WorkerRequest;
}

namespace hpu::server {

class WorkerProcess {
 public:
  // Starts `command` (program, then arguments) with one end of a socket pair as kWorkerSocket and
  // with at most `memory_bytes` of address space (0 = no limit). The starting thread must live as
  // long as the worker (the kernel ties a worker's life to it).
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Start(std::vector<std::string> command,
                                                              uint64_t memory_bytes);

  // Kills and reaps.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // One at a time. After INTERNAL with a crash, DEADLINE_EXCEEDED, CANCELLED or RESOURCE_EXHAUSTED
  // (the memory limit) the worker is dead.
  // `threads` in place of the input's.
  absl::StatusOr<CompileOutput> Compile(const CompileInput& input, unsigned threads,
                                        const ProgressFunction& progress,
                                        std::chrono::milliseconds time_limit);

  // Ends a Compile under way with CANCELLED. Any thread.
  void Kill();

  // False once it has died, also on its own while it had nothing to do.
  bool CheckAlive();
  bool dead() const { return dead_; }
  pid_t pid() const { return pid_; }

 private:
  WorkerProcess(pid_t pid, int fd, uint64_t memory_bytes)
      : pid_(pid), memory_bytes_(memory_bytes), channel_(fd) {}

  absl::StatusOr<CompileOutput> Converse(const wire::WorkerRequest& request,
                                         const ProgressFunction& progress, Deadline deadline);
  // Kills if need be, waits for the end, tells how it ended.
  siginfo_t Bury();

  const pid_t pid_;
  const uint64_t memory_bytes_;
  FrameChannel channel_;
  bool dead_ = false;
  std::atomic<bool> killed_{false};
  std::mutex mutex_;
  bool reaped_ = false;  // guarded by mutex_: pid_ may belong to another process
};

}  // namespace hpu::server
