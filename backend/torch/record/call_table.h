// A table of all that this process knows about the calls of one operator, by signature.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "backend/torch/record/call_program.h"
#include "backend/torch/record/call_signature.h"

namespace hpu::torch_backend {

// Makes every table forget what it knows.
void ForgetCallPrograms();

// Thread-safe.
class CallTable {
 public:
  struct Found {
    std::shared_ptr<const CallProgram> made;  // null if nobody has asked for a program yet
    bool worth_a_program = false;
  };
  // `op` is the name of the operator without its overload, such as "aten::sort".
  explicit CallTable(std::string_view op);

  // Notes a call. A program is worth its compilation once the calls of a signature have done as
  // much work as a compilation takes, so that a script whose sizes or numbers change all the time
  // needs at most twice the time that it needs without programs. The work of a call is estimated
  // from the operator and the elements of its tensors and not measured, so that every run of a
  // script takes the same ways.
  Found Find(const CallSignature& call);
  // Keeps the answer of CompileCall; one that is not lasting for kRetryAfter only.
  void Keep(const CallSignature& call, std::shared_ptr<const CallProgram> made);

 private:
  struct Entry {
    std::shared_ptr<const CallProgram> made;
    std::chrono::steady_clock::time_point made_at;
    int64_t work = 0;  // in elements
  };

  int64_t WorkOf(const CallSignature& call) const;
  // Drops everything if ForgetCallPrograms was called since. The caller holds the mutex.
  void FollowEpoch();

  const int64_t work_per_element_;
  std::mutex mutex_;
  uint64_t epoch_ = 0;
  SignatureMap<Entry> entries_;
};

}  // namespace hpu::torch_backend
