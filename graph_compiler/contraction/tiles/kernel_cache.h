// Finds the kernels of a module by everything that their code depends on, so that equal
// contractions share one kernel.
#pragma once

#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "graph_compiler/codegen/module.h"
#include "graph_compiler/ir/loop_ir.h"

namespace hpu::graph_compiler {

// An unambiguous text of the numbers that a kernel's code depends on.
class KernelKey {
 public:
  explicit KernelKey(const std::string& kind) : text_(kind) {}

  template <typename T>
    requires std::is_integral_v<T> || std::is_enum_v<T>
  KernelKey& Add(T value) {
    text_ += ' ';
    text_ += std::to_string(static_cast<int64_t>(value));
    return *this;
  }
  KernelKey& Add(double value);
  KernelKey& Add(const std::vector<int64_t>& values);
  KernelKey& Add(const Body& body);

  const std::string& text() const { return text_; }

 private:
  void Add(const Access& access);

  std::string text_;
};

class KernelCache {
 public:
  explicit KernelCache(KernelModule& module) : module_(module) {}

  KernelModule& module() { return module_; }
  // Returns the ordinal of the kernel filed under `key`, which is emitted now if it is new.
  uint32_t GetOrAdd(const KernelKey& key, const std::string& name,
                    const KernelModule::EmitTask& emit);

 private:
  KernelModule& module_;
  std::map<std::string, uint32_t> ordinals_;
};

}  // namespace hpu::graph_compiler
