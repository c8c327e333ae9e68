// Runs a Synapse call and returns its failure as an absl::Status.
#pragma once

#include "base/status.h"
#include "synapse/loader.h"

// RETURN_IF_SYN_ERROR(api, synEventRecord, event, stream);
#define RETURN_IF_SYN_ERROR(api, call, ...)                                                   \
  do {                                                                                        \
    const ::synStatus hpu_syn_status_ = (api).call(__VA_ARGS__);                              \
    if (hpu_syn_status_ != synSuccess) return ::hpu::ToStatus((api), hpu_syn_status_, #call); \
  } while (false)
