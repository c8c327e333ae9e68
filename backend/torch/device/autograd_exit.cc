#include "backend/torch/device/autograd_exit.h"

#include <ATen/ATen.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "backend/torch/device/allocator.h"

namespace hpu::torch_backend {
namespace {

constexpr std::chrono::seconds kPatience{1};

std::atomic<bool> may_have_thread{false};

// A pass of its own: when it is through, the thread has let go of the one before. It holds nothing
// of Python, because the thread that asks for it has never been in Python.
void RunEmptyPass() {
  const at::Tensor leaf = at::zeros({1}, at::TensorOptions().device(kHpuDevice)).requires_grad_();
  leaf.view({1}).sum().backward();
}

}  // namespace

void NoteDeviceThread() { may_have_thread = true; }

void AwaitAutogradThread() {
  if (!may_have_thread) return;
  auto done = std::make_shared<std::promise<void>>();
  const std::future<void> waiting = done->get_future();
  // Not joined: whatever a user's thread is doing there, the process shall end.
  std::thread([done] {
    try {
      RunEmptyPass();
    } catch (const std::exception&) {
      // A forked child has no such thread, a lost device no results: nothing to wait for.
    }
    done->set_value();
  }).detach();
  waiting.wait_for(kPatience);
}

}  // namespace hpu::torch_backend
