// A compiler that does what the graph's first constant says, for tests of the code around
// compilers:
//   "quick ...", or nothing   answers at once
//   "held:FILE ..."      reports progress, and answers when FILE exists; fails after a minute
//   without "sleep:MS ..."       reports progress, and answers after MS milliseconds; for tests of
//   what the
//                        time of a compilation changes, and for load
//   "size:BYTES ..."     answers with one recipe of that size
//   "crash ..."          dies by SIGSEGV; "exit:CODE ..." ends the process
//   "unimplemented ...", "invalid ...", "internal ..."   fail with that status
//   "code:N"             fails with the status code of that number
//   "memory ..."         allocates until it is refused
//   "verbose:N"          fails with a message of 2N + 1 bytes
//   "oom_score"          fails with the worker's out-of-memory score
//   "garbage ..."        answers with bytes that are no program
// Words may be combined: "sleep:200 crash". Equal graphs give equal bytes. Each compilation appends
// its text as one line to the file named by HPU_FAKE_COMPILE_LOG, if that is set.
#pragma once

#include "compiler_server/service/workers/compile_backend.h"

namespace hpu::server {

inline constexpr char kFakeCompileLogVariable[] = "HPU_FAKE_COMPILE_LOG";

class FakeBackend : public CompileBackend {
 public:
  absl::StatusOr<CompileOutput> Compile(const CompileInput& input,
                                        const ProgressFunction& progress) override;
};

absl::StatusOr<std::unique_ptr<CompileBackend>> MakeFakeBackend();

// The result for a graph with this text, if it does not fail.
CompileOutput FakeOutput(const std::string& says);

}  // namespace hpu::server
