// How a recording runs without a program, and how results come into the storages that wait for
// them.
#pragma once

#include <ATen/ATen.h>

#include "backend/torch/record/recording.h"

namespace hpu::torch_backend {

// Gives a pending storage the elements of `result`, whose memory it takes if nobody else uses it.
void FillStorage(const c10::Storage& pending, at::Tensor result);

// Runs the calls as in eager mode; the caller keeps this thread's calls from being recorded. A call
// that fails loses its own results, and the first error is thrown after the last call.
void RunCallByCall(Recording& recording);

// Runs these calls, which StateFills has returned, and returns the rest of the recording.
std::unique_ptr<Recording> RunStateFills(Recording& recording, const std::vector<uint32_t>& calls);

}  // namespace hpu::torch_backend
