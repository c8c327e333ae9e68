// A queued launch.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "emulator/runtime/executor.h"
#include "emulator/streams/stream.h"

namespace hpu::emulator {

class LaunchWork : public Work {
 public:
  // It is the `number`th launch of the stream with this handle; messages say so.
  LaunchWork(Executor* executor, LaunchRequest request, uint64_t number, const void* stream)
      : executor_(executor), request_(std::move(request)), number_(number), stream_(stream) {
    request_.recipe->CountQueued(1);
  }
  ~LaunchWork() override { request_.recipe->CountQueued(-1); }
  synStatus Run() override;
  // Takes the time of the recipe's last launch.
  std::chrono::nanoseconds Expected() const override { return request_.recipe->launch_time(); }
  std::string Name() const override;
  std::string Place() const override;
  std::vector<MemoryUse> Uses() const override;

 private:
  Executor* const executor_;
  const LaunchRequest request_;
  const uint64_t number_;
  const void* const stream_;
};

}  // namespace hpu::emulator
