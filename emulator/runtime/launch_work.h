// A queued launch.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "emulator/runtime/executor.h"
#include "emulator/streams/stream.h"

namespace hpu::emulator {

class LaunchWork : public Work {
 public:
  LaunchWork(Executor* executor, LaunchRequest request)
      : executor_(executor), request_(std::move(request)) {
    request_.recipe->CountQueued(1);
  }
  ~LaunchWork() override { request_.recipe->CountQueued(-1); }
  synStatus Run() override { return executor_->Run(request_); }
  std::string Name() const override;
  std::vector<MemoryUse> Uses() const override;

 private:
  Executor* const executor_;
  const LaunchRequest request_;
};

}  // namespace hpu::emulator
