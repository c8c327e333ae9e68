#include "graph_compiler/compiler_door.h"

extern "C" __attribute__((visibility("default"))) const hpu::graph_compiler::CompilerDoor*
HpuEmulatorCompilerDoor() {
  static constexpr hpu::graph_compiler::CompilerDoor kDoor = {
      hpu::graph_compiler::kCompilerDoorVersion, &hpu::graph_compiler::CompileGraph,
      &hpu::graph_compiler::CheckGraph, &hpu::graph_compiler::InferShapes,
      &hpu::graph_compiler::IsKnownGuid};
  return &kDoor;
}
