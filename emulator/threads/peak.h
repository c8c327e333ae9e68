// Measures the best that the host reaches, as the yardstick for profiles of kernels.
#pragma once

#include "emulator/threads/thread_pool.h"

namespace hpu::emulator {

struct Peak {
  double f32_flops_per_second = 0;  // multiply-adds, each counted as two operations
  double bf16_flops_per_second = 0;
  double bytes_per_second = 0;  // read and written, of buffers that no cache holds
};

// Takes the best of the runs on all threads of the pool that fit into some tenths of a second for
// each rate. Other work on the host hardly lowers the rates of operations, but it lowers the rate
// of bytes. Returns false if there is no memory for the buffers.
bool MeasurePeak(ThreadPool& pool, Peak* peak);

}  // namespace hpu::emulator
