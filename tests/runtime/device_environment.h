// The emulated device of the test process.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/runtime/device.h"

namespace hpu::runtime {

// Returns the device, which is acquired on first use; the test fails if acquiring fails.
Device& TestDevice();
// Returns stream `id` of the test device.
Stream& TestStream(uint32_t id = 0);

#define EXPECT_OK(expr)                                     \
  do {                                                      \
    const absl::Status expected_ok_ = (expr);               \
    EXPECT_TRUE(expected_ok_.ok()) << ToText(expected_ok_); \
  } while (false)
#define ASSERT_OK(expr)                                     \
  do {                                                      \
    const absl::Status asserted_ok_ = (expr);               \
    ASSERT_TRUE(asserted_ok_.ok()) << ToText(asserted_ok_); \
  } while (false)

}  // namespace hpu::runtime
