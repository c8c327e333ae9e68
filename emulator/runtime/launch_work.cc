#include "emulator/runtime/launch_work.h"

#include <algorithm>
#include <chrono>
#include <sstream>

namespace hpu::emulator {

synStatus LaunchWork::Run() {
  const auto begin = std::chrono::steady_clock::now();
  const synStatus status = executor_->Run(request_);
  request_.recipe->set_launch_time(std::chrono::steady_clock::now() - begin);
  return status;
}

std::string LaunchWork::Name() const { return "the launch of " + request_.recipe->recipe().name; }

std::string LaunchWork::Place() const {
  std::ostringstream place;
  place << " (launch " << number_ << " of stream " << stream_ << ")";
  return place.str();
}

std::vector<MemoryUse> LaunchWork::Uses() const {
  const LoadedRecipe& recipe = *request_.recipe;
  const std::vector<uint32_t>& written = recipe.written_tensors();
  std::vector<MemoryUse> uses;
  for (uint32_t i = 0; i < recipe.num_tensors(); ++i) {
    if (recipe.recipe().tensors[i].type == HOST_TO_DEVICE_TENSOR) continue;
    const bool writes = std::find(written.begin(), written.end(), i) != written.end();
    uses.push_back({request_.table->addresses[i], recipe.tensor_bytes(i), writes});
  }
  uses.push_back({request_.table->workspace, recipe.recipe().workspace_bytes, true});
  return uses;
}

}  // namespace hpu::emulator
