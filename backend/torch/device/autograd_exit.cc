#include "backend/torch/device/autograd_exit.h"

#include <ATen/ATen.h>
#include <torch/extension.h>

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

// Runs a backward pass of its own: when it has ended, the thread has released the previous pass.
// The pass holds no Python object, because the thread that runs it has never been in Python, and it
// calls no operator that needs a program: Python captures those, and the interpreter may end before
// that is done.
void RunEmptyPass() {
  const auto on_device = at::TensorOptions().device(kHpuDevice);
  const at::Tensor leaf = at::empty({1}, on_device).requires_grad_();
  torch::autograd::grad({leaf.view({1})}, {leaf}, {at::empty({1}, on_device)});
}

}  // namespace

void NoteDeviceThread() { may_have_thread = true; }

void AwaitAutogradThread() {
  if (!may_have_thread) return;
  auto done = std::make_shared<std::promise<void>>();
  const std::future<void> waiting = done->get_future();
  // The thread is not joined: whatever a user's thread is doing there, the process must end.
  std::thread([done] {
    try {
      RunEmptyPass();
    } catch (const std::exception&) {
      // A forked child has no such thread, and a lost device has no results, so there is nothing to
      // wait for.
    }
    done->set_value();
  }).detach();
  waiting.wait_for(kPatience);
}

}  // namespace hpu::torch_backend
