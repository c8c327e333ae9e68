// The graphs of tests/lowering/goldens, which are IR at the end of the pipeline.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/ir/hir_file.h"

namespace hpu::testing {

inline constexpr char kGoldens[] = "tests/lowering/goldens";

inline std::filesystem::path GoldenSource(const std::string& name) {
  return std::filesystem::path(kGoldens) / (name + ".hir");
}

// Sorted.
inline std::vector<std::string> GoldenNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kGoldens)) {
    if (entry.path().extension() == ".hir") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// The graphs that run here: without eager ops (the interpreter has none), without anything that is
// refused, and without nodes that only a real device has.
inline std::vector<std::string> RunnableGoldens() {
  std::vector<std::string> names = GoldenNames();
  std::erase_if(names, [](const std::string& name) {
    return name.starts_with("eager") || name.starts_with("device") || name == "refused";
  });
  return names;
}

}  // namespace hpu::testing
