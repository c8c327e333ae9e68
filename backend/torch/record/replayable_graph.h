// The operators of an HPUGraph, which are run again with the same memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/torch/pytorch/unstable_torch.h"
#include "backend/torch/record/recorded_program.h"
#include "backend/torch/record/recording.h"

namespace hpu::torch_backend {

// A capture that has ended. It keeps the memory that its program reads and writes.
class ReplayableGraph {
 public:
  ReplayableGraph(std::unique_ptr<Recording> recording, std::vector<uint32_t> filled);

  // Runs the captured calls on the current stream.
  void Replay() const;
  // Returns the program as text.
  std::string Text() const;

 private:
  const std::unique_ptr<Recording> recording_;
  std::shared_ptr<const RecordedProgram> program_;
};

// Adds the class ReplayableGraph.
void BindReplayableGraph(pybind11::module_& module);

}  // namespace hpu::torch_backend
