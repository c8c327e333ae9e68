#include "data_loader/thread_pool.h"

#include <utility>

namespace hpu::data_loader {

ThreadPool::ThreadPool(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Add(size_t count, const std::function<void(size_t)>& work) {
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < count; ++i) tasks_.emplace_back([work, i] { work(i); });
  }
  changed_.notify_all();
}

void ThreadPool::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (stopping_) return;
    {
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
    }
    lock.lock();
  }
}

}  // namespace hpu::data_loader
