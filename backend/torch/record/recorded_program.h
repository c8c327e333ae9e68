// The program of a recording. It is made by the same capture, server and store as the program of a
// graph of torch.compile; Python does that (habana_frameworks/torch/lazy/), once for a sequence of
// calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backend/torch/programs/compiled_program.h"
#include "backend/torch/pytorch/unstable_torch.h"
#include "backend/torch/record/recording.h"

namespace hpu::torch_backend {

struct RecordedProgram {
  // Null if the compile server has none; then `refusal` says why, and `lasting` whether the answer
  // stays the same.
  c10::intrusive_ptr<CompiledProgram> program;
  std::string refusal;
  bool lasting = true;
  struct Input {
    uint32_t value = 0;
    TensorForm form;
    int64_t distance = 0;  // in bytes from the value's first_byte

    // Both take a recording of the same calls, whose operands may begin elsewhere in their
    // storages. The input begins there, in elements.
    int64_t OffsetIn(const Recording& recording) const;
    // Returns whether the storage has the elements. An input may be more of it than the operands.
    bool LiesIn(const Recording& recording) const;
  };
  std::vector<Input> inputs;
  // The numbers of the recording that are an input of the program, in its order; it comes after the
  // others.
  std::vector<uint32_t> varying;
  // The other ones, with their values, which are part of the program.
  std::vector<std::pair<uint32_t, double>> fixed;
  // The number of what a message says that the launches are for, without lines.
  uint32_t purpose = 0;

  // Returns whether a recording of the same calls has the numbers and the memory of this program.
  bool IsFor(const Recording& recording) const;
  // Runs the program and returns its outputs, which are the values of `filled`.
  std::vector<at::Tensor> Run(const Recording& recording) const;
};

// Says what becomes of the values that somebody holds.
enum class Results {
  kReturned,  // the program makes new memory for them
  kInPlace,   // they have memory, which the program writes at every run
};

// Asks the front end. It takes the GIL, and it waits for the compile server without it. `varying`
// are the numbers that should not be part of the program. Throws what Python raises.
std::shared_ptr<const RecordedProgram> CompileRecording(const Recording& recording,
                                                        const std::vector<uint32_t>& filled,
                                                        const std::vector<uint32_t>& varying,
                                                        Results results);

// The programs of one sequence of calls, which differ in numbers. Not thread-safe.
class ProgramsOfRecording {
 public:
  // Returns the program for the recording. If there is none yet, it compiles one and counts that,
  // unless the numbers are new and too many programs have been compiled for numbers that did not
  // come again; the answer then has no program.
  std::shared_ptr<const RecordedProgram> Get(const Recording& recording,
                                             const std::vector<uint32_t>& filled,
                                             uint64_t* compilations);
  // Returns whether a recording of these calls has come before, and notes that one has come.
  bool ComesAgain() { return std::exchange(has_come_, true); }

 private:
  struct Known {
    std::shared_ptr<const RecordedProgram> program;
    bool used_again = false;
  };
  // Returns whether these numbers, without those that are inputs, have come before, and notes that
  // they have come.
  bool NumbersComeAgain(const Recording& recording, const std::set<uint32_t>& varying);

  std::vector<Known> programs_;
  size_t compiled_in_vain_ = 0;    // programs that were compiled and not used again
  std::set<size_t> numbers_seen_;  // hashes
  // The last answer that may change, and when it came.
  std::shared_ptr<const RecordedProgram> passing_;
  std::chrono::steady_clock::time_point passing_at_;
  bool has_come_ = false;
};

}  // namespace hpu::torch_backend
