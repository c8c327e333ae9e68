#include "compiler_server/service/workers/worker_main.h"

#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <new>

#include "base/log.h"
#include "compiler_server/service/workers/frame_channel.h"
#include "worker.pb.h"

namespace hpu::server {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kLimitMemory = false;  // sanitizers reserve terabytes of address space
#else
constexpr bool kLimitMemory = true;
#endif

// An arena of glibc's allocator reserves this much address space, used or not (HEAP_MAX_SIZE in its
// arena.c). Threads make arenas when they meet, so their number varies from run to run.
constexpr uint64_t kArenaBytes = 64 << 20;
constexpr uint64_t kPartForArenas = 4;

constexpr int kOutOfMemoryScore = 500;  // from -1000 (never) to 1000 (first)

void ApplyLimits(const WorkerLimits& limits) {
  // A worker must not outlive its server.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The terminal's Ctrl-C is for the server, which stops its workers.
  signal(SIGINT, SIG_IGN);
  // If memory runs out, a worker is killed before its server and the user's programs.
  std::ofstream("/proc/self/oom_score_adj") << kOutOfMemoryScore;
  // A crash dump of a worker helps nobody and may fill the disk.
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (limits.address_space_bytes == 0 || !kLimitMemory) return;
  const uint64_t arenas = limits.address_space_bytes / kPartForArenas / kArenaBytes;
  mallopt(M_ARENA_MAX, static_cast<int>(std::clamp<uint64_t>(arenas, 1, 1024)));
  const rlimit memory{limits.address_space_bytes, limits.address_space_bytes};
  if (setrlimit(RLIMIT_AS, &memory) != 0) {
    HPU_LOG(kWarning, "worker memory limit not set bytes=" << limits.address_space_bytes);
  }
}

[[noreturn]] void EndOutOfMemory() { _exit(kExitOutOfMemory); }

CompileInput ToInput(wire::WorkerRequest& request) {
  CompileInput input;
  input.graph = std::move(*request.mutable_graph());
  for (const wire::CompileOption& option : request.options()) {
    input.options.emplace_back(option.name(), option.value());
  }
  input.device_kind = request.device_kind();
  input.isa_level = request.isa_level();
  input.threads = request.threads();
  return input;
}

void PutFailure(const absl::Status& status, wire::WorkerReply* reply) {
  reply->mutable_failure()->set_code(static_cast<int32_t>(status.code()));
  reply->mutable_failure()->set_message(std::string(status.message()));
}

absl::StatusOr<CompileOutput> CompileGuarded(CompileBackend& backend, const CompileInput& input,
                                             const ProgressFunction& progress) {
  try {
    absl::StatusOr<CompileOutput> output = backend.Compile(input, progress);
    // To the service these codes mean that the server itself is stopping.
    if (absl::IsUnavailable(output.status()) || absl::IsCancelled(output.status())) {
      return Internal("the compiler gave up: ", ToText(output.status()));
    }
    return output;
  } catch (const std::exception& error) {
    return Internal("the compiler threw ", error.what());
  }
}

wire::WorkerReply Answer(absl::StatusOr<std::unique_ptr<CompileBackend>>& backend,
                         wire::WorkerRequest& request, FrameChannel& channel) {
  wire::WorkerReply reply;
  if (!backend.ok()) {
    // This is not a verdict about the graph, whatever its code.
    PutFailure(Error(absl::StatusCode::kFailedPrecondition,
                     "the compiler cannot start: ", ToText(backend.status())),
               &reply);
    return reply;
  }
  const ProgressFunction progress = [&](const CompileProgress& now) {
    wire::WorkerReply message;
    message.mutable_progress()->set_stage(now.stage);
    message.mutable_progress()->set_done(now.done);
    message.mutable_progress()->set_total(now.total);
    // If the server is gone, sending the result finds out.
    channel.Send(message, std::nullopt).IgnoreError();
  };
  absl::StatusOr<CompileOutput> output = CompileGuarded(**backend, ToInput(request), progress);
  if (!output.ok()) {
    PutFailure(output.status(), &reply);
    return reply;
  }
  wire::WorkerReply::Result* result = reply.mutable_result();
  result->set_program(output->program.data(), output->program.size());
  for (const Bytes& recipe : output->recipes) result->add_recipes(recipe.data(), recipe.size());
  return reply;
}

}  // namespace

int RunWorker(const BackendFactory& factory, const WorkerLimits& limits) {
  ApplyLimits(limits);
  std::set_new_handler(EndOutOfMemory);
  FrameChannel channel(kWorkerSocket);
  absl::StatusOr<std::unique_ptr<CompileBackend>> backend = factory();
  if (!backend.ok()) {
    HPU_LOG(kError, "worker has no compiler error=" << ToText(backend.status()));
  }
  while (true) {
    wire::WorkerRequest request;
    if (!channel.Receive(&request, std::nullopt).ok()) return 0;
    absl::Status sent = channel.Send(Answer(backend, request, channel), std::nullopt);
    if (absl::IsResourceExhausted(sent)) {
      wire::WorkerReply too_large;
      PutFailure(sent, &too_large);
      sent = channel.Send(too_large, std::nullopt);
    }
    if (!sent.ok()) return 1;
  }
}

}  // namespace hpu::server
