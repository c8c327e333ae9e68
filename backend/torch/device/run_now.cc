#include "backend/torch/device/run_now.h"

namespace hpu::torch_backend {
namespace {

thread_local int how_many = 0;

}  // namespace

CallsRunNow::CallsRunNow() { ++how_many; }
CallsRunNow::~CallsRunNow() { --how_many; }
bool CallsRunNow::IsSet() { return how_many > 0; }

}  // namespace hpu::torch_backend
