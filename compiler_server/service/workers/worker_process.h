// A compiler in a process of its own, so that the server survives whatever it does.
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
  // Starts `command` (the program, then its arguments) with one end of a socket pair as
  // kWorkerSocket and with at most `memory_bytes` of address space (0 = no limit). The starting
  // thread must live as long as the worker, because the kernel ties the worker's life to it.
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Start(std::vector<std::string> command,
                                                              uint64_t memory_bytes);

  // Kills the process and waits for its end.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // Only one call at a time is allowed. The worker is dead after INTERNAL with a crash,
  // DEADLINE_EXCEEDED, CANCELLED and RESOURCE_EXHAUSTED (the memory limit). `threads` replaces the
  // number in the input.
  absl::StatusOr<CompileOutput> Compile(const CompileInput& input, unsigned threads,
                                        const ProgressFunction& progress,
                                        std::chrono::milliseconds time_limit);

  // Ends a running Compile with CANCELLED. May be called on any thread.
  void Kill();

  // Returns false once it has died, even if it died while it had nothing to do.
  bool CheckAlive();
  bool dead() const { return dead_; }
  pid_t pid() const { return pid_; }

 private:
  WorkerProcess(pid_t pid, int fd, uint64_t memory_bytes)
      : pid_(pid), memory_bytes_(memory_bytes), channel_(fd) {}

  absl::StatusOr<CompileOutput> Converse(const wire::WorkerRequest& request,
                                         const ProgressFunction& progress, Deadline deadline);
  // Kills the process if necessary, waits for its end and returns how it ended.
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
