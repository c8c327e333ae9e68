// A launch table that was found valid, and the data that a recipe keeps about its last table.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "synapse/include/synapse_api_types.h"

namespace hpu::emulator {

// Immutable. Launches with equal tables share it.
struct BoundTable {
  std::vector<uint64_t> addresses;  // of the recipe's tensors, in order
  uint64_t workspace = 0;
};

// Everything that decides whether a table of plain data tensors is valid, beside the recipe. If a
// table differs from the remembered one in a few addresses, only those are checked.
struct BindingMemo {
  struct Entry {
    uint64_t id = 0;
    uint64_t address = 0;
    synTensorType type = DATA_TENSOR;
  };

  std::mutex mutex;                         // guards all members below
  std::shared_ptr<const BoundTable> bound;  // null: nothing is remembered
  std::vector<Entry> entries;
  std::vector<uint32_t> entry_of;  // by tensor; empty unless every tensor has exactly one entry
  uint64_t memory_epoch = 0;       // the DeviceMemory::epoch() at that time
  synDeviceType device_type = synDeviceTypeInvalid;
  bool check_overlap = true;

  std::vector<uint64_t> bases;                            // by section
  std::vector<std::pair<uint64_t, uint32_t>> placements;  // first byte and section, sorted

  // Working memory for binding; its contents do not outlive a call.
  std::vector<bool> given;        // by tensor
  std::vector<uint32_t> changed;  // entries
};

}  // namespace hpu::emulator
