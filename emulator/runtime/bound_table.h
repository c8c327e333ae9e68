// A launch table that was found valid, and what a recipe remembers of the last one.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "synapse/include/synapse_api_types.h"

namespace hpu::emulator {

// Immutable; shared by the launches that came with equal tables.
struct BoundTable {
  std::vector<uint64_t> addresses;  // of the recipe's tensors, in order
  uint64_t workspace = 0;
};

// All that decides whether a table of plain data tensors is valid, beside the recipe. Of a table
// that differs from the one remembered in a few addresses, only those are looked at.
struct BindingMemo {
  struct Entry {
    uint64_t id = 0;
    uint64_t address = 0;
    synTensorType type = DATA_TENSOR;
  };

  std::mutex mutex;                         // guards all below
  std::shared_ptr<const BoundTable> bound;  // null: nothing is remembered
  std::vector<Entry> entries;
  std::vector<uint32_t> entry_of;  // by tensor; empty unless every tensor has exactly one entry
  uint64_t memory_epoch = 0;       // DeviceMemory::epoch() of then
  synDeviceType device_type = synDeviceTypeInvalid;
  bool check_overlap = true;

  std::vector<uint64_t> bases;                            // by section
  std::vector<std::pair<uint64_t, uint32_t>> placements;  // first byte and section, sorted

  // What binding works in; nothing in them outlives a call.
  std::vector<bool> given;        // by tensor
  std::vector<uint32_t> changed;  // entries
};

}  // namespace hpu::emulator
