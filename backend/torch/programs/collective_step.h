// A collective step of a program, which a process group's backend runs.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "backend/runtime/stream.h"
#include "backend/torch/pytorch/unstable_torch.h"
#include "program/program.h"

namespace hpu::torch_backend {

class PreparedCollectiveStep {
 public:
  // `program` names the program in messages. It and `step` must outlive this object.
  // `ends_at_once`: the next step waits for this one.
  PreparedCollectiveStep(const std::string& program, const CollectiveStep& step, bool ends_at_once)
      : program_(program), step_(step), ends_at_once_(ends_at_once) {}

  // Queues the collective after the work of `stream`, which is the current one, and returns what to
  // wait for: on the stream itself if the program waits at once, else on one of the group's. The
  // tensors are those of the step, in its order. Throws if the group is not there, has another size
  // or cannot run the collective.
  c10::intrusive_ptr<c10d::Work> Start(runtime::Stream& stream, std::vector<at::Tensor> inputs,
                                       std::vector<at::Tensor> outputs) const;

 private:
  c10::intrusive_ptr<c10d::Backend> FindBackend() const;

  const std::string& program_;
  const CollectiveStep& step_;
  const bool ends_at_once_;
};

}  // namespace hpu::torch_backend
