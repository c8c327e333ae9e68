// Describes a serialised recipe through the queries of the Synapse API.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "synapse/loader.h"

namespace hpu::compiler {

struct RecipeTensorInfo {
  std::string name;
  std::string dtype;            // "f32"; the number of an unknown type
  std::vector<uint64_t> sizes;  // PyTorch order
  uint32_t section = 0;
  uint64_t section_offset = 0;  // bytes
  bool is_input = false;
};

struct RecipeInfo {
  std::string digest;  // hexadecimal SHA-256 of the bytes
  uint64_t size_bytes = 0;
  uint64_t workspace_bytes = 0;
  uint64_t persistent_bytes = 0;
  uint64_t host_bytes = 0;
  std::string isa_level;                  // emulator only
  std::vector<RecipeTensorInfo> tensors;  // the launch table
};

// Returns DATA_LOSS for bytes that the library does not accept as a recipe. Needs synInitialize,
// but no device.
absl::StatusOr<RecipeInfo> DescribeRecipe(const SynapseFunctions& functions,
                                          std::span<const uint8_t> recipe);
// Returns a readable listing with one line per tensor.
std::string PrintRecipe(const RecipeInfo& info);

}  // namespace hpu::compiler
