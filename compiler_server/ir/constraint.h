// Refuses with the label of a broken constraint in front (docs/ir.md lists them).
#pragma once

#include "base/status.h"

#define CONSTRAINT(cond, label, ...) \
  if (!(cond)) return ::hpu::InvalidArgument("[" label "] ", __VA_ARGS__)
