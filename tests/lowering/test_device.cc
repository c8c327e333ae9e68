#include "tests/lowering/test_device.h"

#include "compiler_server/ir/text.h"

namespace hpu::testing {
namespace {

absl::StatusOr<Device> OpenDevice() {
  Device device;
  ASSIGN_OR_RETURN(device.functions, LoadSynapse(HPU_TEST_SYNAPSE_LIBRARY));
  ASSIGN_OR_RETURN(device.compiler, compiler::Compiler::Create(*device.functions));
  ASSIGN_OR_RETURN(device.runner, ProgramRunner::Create(*device.functions));
  return device;
}

}  // namespace

absl::StatusOr<Device>& TheDevice() {
  static auto* device = new absl::StatusOr<Device>(OpenDevice());
  return *device;
}

absl::StatusOr<compiler::CompiledProgram> CompileText(const std::string& text,
                                                      const compiler::CompileOptions& options) {
  RETURN_IF_ERROR(TheDevice().status());
  ASSIGN_OR_RETURN(ir::Graph graph, ir::Parse(text));
  return TheDevice()->compiler->Compile(std::move(graph), options);
}

}  // namespace hpu::testing
