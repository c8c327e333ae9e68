// The fixture of what every store promises: a test for every layer and stack.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "recipe_store/recipe_store.h"
#include "tests/store/store_testing.h"

namespace hpu::store {

inline constexpr uint64_t kConformanceBytes = 100'000;  // that a store may hold

struct Layer {
  std::string name;
  std::function<std::unique_ptr<RecipeStore>(const TemporaryFolder&)> make;
  bool lists = true;          // else List and AliasesOf answer nothing
  std::string why_none = "";  // what to do where `make` gives null
};

// A layer that cannot hold a promise is listed in kUnsupported (conformance.cc) with the reason.
const std::vector<Layer>& Layers();

class StoreConformance : public testing::TestWithParam<Layer> {
 protected:
  void SetUp() override;

  TemporaryFolder folder_;
  std::unique_ptr<RecipeStore> store_;
};

}  // namespace hpu::store
