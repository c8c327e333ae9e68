// An object of the calling thread that exit handlers can use, too.
#pragma once

namespace hpu::emulator {

// Returns the thread's own T. An exit handler of the process runs after the main thread's
// thread_local objects were destroyed, and may still wait for a stream and so run its work; it gets
// another T, which is never destroyed.
template <typename T>
T& ThreadObject() {
  thread_local bool destroyed = false;
  thread_local T* late = nullptr;
  struct Owner {
    ~Owner() { destroyed = true; }
    T object;
  };
  thread_local Owner owner;
  if (!destroyed) return owner.object;
  if (late == nullptr) late = new T;
  return *late;
}

}  // namespace hpu::emulator
