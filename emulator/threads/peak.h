// What the host reaches at its best, as the measure for profiles of kernels.
#pragma once

#include "emulator/threads/thread_pool.h"

namespace hpu::emulator {

struct Peak {
  double f32_flops_per_second = 0;  // multiply-adds, each counted as two operations
  double bf16_flops_per_second = 0;
  double bytes_per_second = 0;  // read and written, of buffers that no cache holds
};

// Best of the runs on all threads of the pool that fit into some tenths of a second each. Other
// work on the host hardly lowers the rates of operations; it lowers that of bytes. False: no memory
// for the buffers.
bool MeasurePeak(ThreadPool& pool, Peak* peak);

}  // namespace hpu::emulator
