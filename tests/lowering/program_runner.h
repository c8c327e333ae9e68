// Runs compiled programs on a Synapse device, as an executor does, for tests: memory has guard
// bytes, every launch table is bound by name, and outputs are read back by their strides.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "compiler_server/compiler/compiler.h"
#include "compiler_server/ir/interpreter.h"
#include "program/program.h"
#include "synapse/loader.h"

namespace hpu::testing {

class ProgramRunner {
 public:
  // Acquires the device of the process.
  static absl::StatusOr<std::unique_ptr<ProgramRunner>> Create(const SynapseFunctions& functions);
  ~ProgramRunner();

  // `inputs` has the logical elements of the tensor inputs, in order. The result has the outputs as
  // the graph returns them and the inputs after mutations, like ir::Interpret. Fails if memory
  // outside the elements of mutated inputs and of buffers was written. The only eager steps are
  // aten::lgamma, as_strided and slice.
  absl::StatusOr<ir::RunResult> Run(const compiler::CompiledProgram& compiled,
                                    const std::vector<ir::HostTensor>& inputs);

 private:
  class Call;
  ProgramRunner(const SynapseFunctions& functions) : functions_(functions) {}

  const SynapseFunctions& functions_;
  synDeviceId device_ = 0;
  synStreamHandle stream_ = nullptr;
};

}  // namespace hpu::testing
