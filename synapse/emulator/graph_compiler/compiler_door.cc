#include "synapse/emulator/graph_compiler/compiler_door.h"

extern "C" __attribute__((visibility("default"))) const hpu::emulator::CompilerDoor*
HpuEmulatorCompilerDoor() {
  static constexpr hpu::emulator::CompilerDoor kDoor = {
      hpu::emulator::kCompilerDoorVersion, &hpu::emulator::CompileGraph,
      &hpu::emulator::InferShapes, &hpu::emulator::IsKnownGuid};
  return &kDoor;
}
