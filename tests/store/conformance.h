// StoreConformance tests what every store promises, for every layer and stack.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "recipe_store/recipe_store.h"
#include "tests/store/store_testing.h"

namespace hpu::store {

inline constexpr uint64_t kConformanceBytes = 100'000;  // the limit of each store

struct Layer {
  std::string name;
  std::function<std::unique_ptr<RecipeStore>(const TemporaryFolder&)> make;
  bool maintains = true;      // implements StoreMaintenance
  std::string why_none = "";  // says what is missing if `make` returns null
};

// A layer that cannot hold a promise is listed in kUnsupported (conformance.cc) with the reason.
const std::vector<Layer>& Layers();

// Engines that servers share look after their entries themselves.
#define MAINTENANCE_OR_SKIP() \
  if (!GetParam().maintains) GTEST_SKIP() << "its engine does the maintenance"

class StoreConformance : public testing::TestWithParam<Layer> {
 protected:
  void SetUp() override;

  TemporaryFolder folder_;
  std::unique_ptr<RecipeStore> store_;
};

}  // namespace hpu::store
