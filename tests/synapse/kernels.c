// Kernels for hand-built recipes. Each is in a section of its own and must need nothing but its
// arguments: no constants in memory, no calls (see CMakeLists.txt).
#include <stdint.h>

#define KERNEL(name)                                                                       \
  __attribute__((section(".text." #name))) void name(void* const* operands, int64_t begin, \
                                                     int64_t end, void* scratch)

// Computes out[i] = a[i] + b[i].
KERNEL(add) {
  (void)scratch;
  const int32_t* a = operands[0];
  const int32_t* b = operands[1];
  int32_t* out = operands[2];
  for (int64_t i = begin; i < end; ++i) out[i] = a[i] + b[i];
}

// Computes out[i] = in[i], as a pack kernel.
KERNEL(copy) {
  (void)scratch;
  const int32_t* in = operands[0];
  int32_t* out = operands[1];
  for (int64_t i = begin; i < end; ++i) out[i] = in[i];
}

// Computes visits[i] += 1, so that a task that runs twice or never is noticed.
KERNEL(visit) {
  (void)scratch;
  int32_t* visits = operands[0];
  for (int64_t i = begin; i < end; ++i) visits[i] += 1;
}

// Waits until the host sets gate[0].
KERNEL(wait_gate) {
  (void)begin;
  (void)end;
  (void)scratch;
  const int32_t* gate = operands[0];
  while (__atomic_load_n(gate, __ATOMIC_ACQUIRE) == 0) __builtin_ia32_pause();
}

// Uses all of 256 ints of scratch; the result is wrong if two threads share it.
KERNEL(use_scratch) {
  volatile int32_t* own = scratch;
  int32_t* out = operands[0];
  for (int64_t i = begin; i < end; ++i) {
    for (int32_t k = 0; k < 256; ++k) own[k] = (int32_t)i + k;
    int32_t sum = 0;
    for (int32_t k = 0; k < 256; ++k) sum += own[k];
    out[i] = sum;
  }
}
