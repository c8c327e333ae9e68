#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/log.h"

namespace hpu {

void ParallelFor(size_t count, size_t threads, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;  // guarded by mutex while threads run
  const auto take = [&] {
    try {
      for (size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (failure == nullptr) failure = std::current_exception();
    }
  };
  const size_t helpers_wanted = std::max<size_t>(std::min(threads, count), 1) - 1;
  std::vector<std::thread> helpers;
  helpers.reserve(helpers_wanted);
  try {
    while (helpers.size() < helpers_wanted) helpers.emplace_back(take);
  } catch (const std::system_error& error) {
    HPU_LOG(kDebug, "fewer threads wanted=" << helpers_wanted << " got=" << helpers.size()
                                            << " error=" << error.what());
  }
  take();
  for (std::thread& helper : helpers) helper.join();
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace hpu
