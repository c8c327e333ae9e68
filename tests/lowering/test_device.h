// The emulated device of the process, with a compiler for it.
#pragma once

#include <memory>
#include <string>

#include "compiler_server/compiler/compiler.h"
#include "tests/lowering/program_runner.h"

namespace hpu::testing {

struct Device {
  const SynapseFunctions* functions = nullptr;
  std::unique_ptr<compiler::Compiler> compiler;
  std::unique_ptr<ProgramRunner> runner;
};

// It is opened once; the tests of a process run one after the other.
absl::StatusOr<Device>& TheDevice();

absl::StatusOr<compiler::CompiledProgram> CompileText(const std::string& text,
                                                      const compiler::CompileOptions& options);

}  // namespace hpu::testing
