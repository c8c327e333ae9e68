// The common part of hpu_custom_op.h and hpu_custom_op_pt2.h. Programs include one of those.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/stack.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

// The functions are those of libhabana_pytorch2_plugin.so.
#define HPU_CUSTOM_OP_API __attribute__((visibility("default")))

// For functions that fill a kernel's parameters: declares `params`, a std::shared_ptr to a zeroed
// struct, and sets the function's argument `size`.
#define HPU_PARAMS_STUB(struct_name) \
  size = sizeof(struct_name);        \
  auto params = std::make_shared<struct_name>()
