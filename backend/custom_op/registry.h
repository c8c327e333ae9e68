// The operators of one of the two interfaces, by their names.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace hpu::custom_op {

// Thread-safe. References stay valid. It is never destroyed, because operators may be called until
// the process ends.
template <typename Descriptor>
class Registry {
 public:
  static Registry& Get() {
    static auto* registry = new Registry;
    return *registry;
  }

  void Add(Descriptor descriptor) {
    const std::string name = descriptor.getSchemaName();
    TORCH_CHECK_VALUE(!name.empty() && !descriptor.getGuid().empty(),
                      "a custom operator needs a name and a GUID; it has '", name, "' and '",
                      descriptor.getGuid(), "'");
    const std::lock_guard lock(mutex_);
    const auto [known, is_new] = descriptors_.try_emplace(name, descriptor);
    TORCH_CHECK_VALUE(is_new || known->second.getGuid() == descriptor.getGuid(), "custom operator ",
                      name, " is registered with GUID ", known->second.getGuid(),
                      " already, not with ", descriptor.getGuid());
  }

  const Descriptor& Find(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto found = descriptors_.find(name);
    TORCH_CHECK_VALUE(found != descriptors_.end(), "custom operator ", name,
                      " is not registered: register it before its first call");
    return found->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Descriptor> descriptors_;
};

}  // namespace hpu::custom_op
