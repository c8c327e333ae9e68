// Queued collectives.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "emulator/collectives/communicator.h"
#include "emulator/collectives/plan.h"
#include "emulator/profiler/profiler.h"
#include "emulator/runtime/pack_cache.h"
#include "emulator/streams/stream.h"

namespace hpu::emulator {

class CollectiveWork : public Work {
 public:
  // More than one call are sends and receives of a group, which run at the same time. The calls
  // take their place in the communicator's order here. `packs` and `profiler` outlive the work.
  CollectiveWork(std::shared_ptr<Communicator> communicator, std::vector<CollectiveCall> calls,
                 PackCache* packs, Profiler* profiler, const WorkOrigin& origin);
  synStatus Run() override;
  std::string Name() const override;
  std::vector<MemoryUse> Uses() const override;

 private:
  const std::shared_ptr<Communicator> communicator_;
  const std::vector<CollectiveCall> calls_;
  PackCache* const packs_;
  Profiler* const profiler_;
  const WorkOrigin origin_;
  const Communicator::Ticket ticket_;
};

}  // namespace hpu::emulator
