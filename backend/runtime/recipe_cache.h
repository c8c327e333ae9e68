// Recipes that are loaded into this process. All programs that name the same digest share them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/status.h"
#include "synapse/include/synapse_api_types.h"

namespace hpu::runtime {

class Device;
class Stream;
struct DeviceBlock;

// Immutable except for the const sections, which go to the device at the first launch.
class LoadedRecipe {
 public:
  struct Tensor {
    std::string name;
    uint64_t id = 0;  // for the launch table
    synTensorType type = DATA_TENSOR;
    uint32_t section = 0;
    uint64_t section_offset = 0;
    bool is_const = false;  // its address comes from PlaceConstSections, not from the caller
  };

  ~LoadedRecipe();
  LoadedRecipe(const LoadedRecipe&) = delete;
  LoadedRecipe& operator=(const LoadedRecipe&) = delete;

  synRecipeHandle handle() const { return handle_; }
  const std::string& name() const { return name_; }
  uint64_t workspace_bytes() const { return workspace_bytes_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  bool has_const_sections() const { return has_const_sections_; }

  // Copies the const sections to the device, once. Needs an acquired device.
  absl::Status PlaceConstSections(Stream& stream);
  // Returns the address of a tensor with is_const, after PlaceConstSections.
  uint64_t ConstAddress(const Tensor& tensor) const;

 private:
  friend absl::StatusOr<std::shared_ptr<LoadedRecipe>> LoadRecipe(const Digest&, const std::string&,
                                                                  std::span<const uint8_t>);
  LoadedRecipe(Device& device, synRecipeHandle handle, std::string name)
      : device_(device), handle_(handle), name_(std::move(name)) {}
  absl::Status ReadTables();
  absl::Status PlaceSection(Stream& stream, uint32_t section);

  Device& device_;
  const synRecipeHandle handle_;
  const std::string name_;
  uint64_t workspace_bytes_ = 0;
  std::vector<Tensor> tensors_;
  bool has_const_sections_ = false;
  std::mutex mutex_;
  // mutex_ guards it until the sections are placed.
  std::unordered_map<uint32_t, DeviceBlock*> sections_;
};

// `bytes` is a serialised recipe with that digest, already verified. Returns the loaded recipe if
// some program holds it. Loads the library and acquires no device.
absl::StatusOr<std::shared_ptr<LoadedRecipe>> LoadRecipe(const Digest& digest,
                                                         const std::string& name,
                                                         std::span<const uint8_t> bytes);

}  // namespace hpu::runtime
