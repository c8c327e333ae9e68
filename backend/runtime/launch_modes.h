// Modes of the whole process that change what a launch of a program does.
#pragma once

#include <atomic>

namespace hpu::runtime {

struct LaunchModes {
  // PT_COMPILE_ONLY_MODE: programs are compiled, loaded and stored, and none of their recipes is
  // launched. A program's call allocates what a run would, so that lack of memory shows, and leaves
  // memory as it finds it. Copies and fills still run.
  std::atomic<bool> compile_only{false};
  // PT_HPU_SYNC_LAUNCH: the host waits for each launch, so that a failure is raised where it arose.
  std::atomic<bool> wait_for_each{false};
};

inline LaunchModes& GetLaunchModes() {
  static LaunchModes modes;
  return modes;
}

inline bool IsCompileOnly() {
  return GetLaunchModes().compile_only.load(std::memory_order_relaxed);
}

}  // namespace hpu::runtime
