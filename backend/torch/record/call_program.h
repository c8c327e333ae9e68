// The program of one ATen call. It is made by the same capture, server and store as the program of
// a graph of torch.compile; Python does that (habana_frameworks/torch/eager/), once per signature.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/torch/programs/compiled_program.h"
#include "backend/torch/programs/program.h"
#include "backend/torch/pytorch/unstable_torch.h"
#include "backend/torch/record/call_signature.h"

namespace hpu::torch_backend {

struct CallProgram {
  // Null if no recipe can hold the call. `refusal` then says why, and `lasting` whether the answer
  // stays the same (a server that cannot be reached may be back later).
  c10::intrusive_ptr<CompiledProgram> program;
  std::string refusal;
  bool lasting = true;
  // By result of the operator: the number of tensors in a list, or -1 for a single tensor.
  std::vector<int64_t> counts;
  // By tensor among the results: what it is made of.
  struct Made {
    enum class Kind : uint8_t { kOutput, kEmpty, kUndefined };
    Kind kind = Kind::kOutput;  // kOutput: the program's next output
    at::ScalarType dtype = at::kFloat;
    std::vector<int64_t> sizes;  // kEmpty
  };
  std::vector<Made> made;
  // The form that the operator gives an `out` tensor that has another size than its result.
  struct Resize {
    size_t tensor = 0;  // among the signature's tensors
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
  };
  std::vector<Resize> resizes;

  // Runs the call, which has the signature that the program was made for, and returns the results
  // of the operator. Works with or without the GIL. Throws AliasedInputs, before anything has run,
  // if an argument is written that overlaps with another.
  std::vector<c10::IValue> Run(const CallSignature& call) const;
};

// Takes what every answer of the front end has: the program, or why there is none.
template <typename Made>
void TakeProgram(const pybind11::object& answer, Made& made) {
  const pybind11::object program = answer.attr("program");
  if (!program.is_none()) {
    made.program = ProgramOf(program.ptr());
    // PyTorch counts the writes of an operator above its kernel.
    made.program->forward().LeaveVersions();
  }
  made.refusal = answer.attr("refusal").template cast<std::string>();
  made.lasting = answer.attr("lasting").template cast<bool>();
}

// Asks the front end. `call` is the signature of `arguments`, with the numbers in its words. It
// takes the GIL, and it waits for the compile server without it. Throws what PyTorch's shape
// functions raise for wrong arguments.
std::shared_ptr<const CallProgram> CompileCall(const c10::OperatorHandle& op,
                                               c10::ArrayRef<c10::IValue> arguments,
                                               const CallSignature& call);

}  // namespace hpu::torch_backend
