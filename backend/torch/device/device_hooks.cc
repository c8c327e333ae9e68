// The interfaces through which PyTorch asks a device type: guard (device, streams, events) and
// accelerator hooks.
#include "backend/torch/device/allocator.h"
#include "backend/torch/device/autograd_exit.h"
#include "backend/torch/device/errors.h"
#include "backend/torch/device/generator.h"
#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {
namespace {

using runtime::Device;
using runtime::Event;

Event* EventOf(void* event) { return static_cast<Event*>(event); }

c10::Stream StreamWithId(uint32_t id) {
  return c10::Stream(c10::Stream::UNSAFE, kHpuDevice, static_cast<c10::StreamId>(id));
}

struct HpuGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::HPU; }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(Device::Get().Count());
  }

  c10::Device getDevice() const override { return kHpuDevice; }
  c10::Device exchangeDevice(c10::Device device) const override {
    CheckDeviceIndex(device.index());
    return kHpuDevice;
  }
  void setDevice(c10::Device device) const override {
    CheckDeviceIndex(device.index());
    NoteDeviceThread();
  }
  void uncheckedSetDevice(c10::Device /*device*/) const noexcept override {}
  c10::DeviceCapability getDeviceCapability(c10::Device /*device*/) const override { return {}; }
  void synchronizeDevice(c10::DeviceIndex /*index*/) const override {
    if (Device::Get().acquired()) Check(Device::Get().Synchronize());
  }

  c10::Stream getStream(c10::Device /*device*/) const override {
    return StreamWithId(runtime::CurrentStreamId());
  }
  c10::Stream getDefaultStream(c10::Device /*device*/) const override { return StreamWithId(0); }
  c10::Stream getStreamFromGlobalPool(c10::Device /*device*/,
                                      bool /*high_priority*/) const override {
    return StreamWithId(Device::Get().NextStreamId());
  }
  c10::Stream getNewStream(c10::Device /*device*/, int /*priority*/) const override {
    return StreamWithId(Device::Get().NextStreamId());
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream previous = StreamWithId(runtime::CurrentStreamId());
    runtime::SetCurrentStreamId(static_cast<uint32_t>(stream.id()));
    return previous;
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return StreamOf(stream).handle();
  }
  bool queryStream(const c10::Stream& stream) const override {
    return Check(StreamOf(stream).Query());
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    Check(StreamOf(stream).Synchronize());
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex /*index*/,
              const c10::EventFlag flag) const override {
    // torch.Event(enable_timing=True) asks for BACKEND_DEFAULT.
    if (*event == nullptr) *event = new Event(flag == c10::EventFlag::BACKEND_DEFAULT);
    Check(EventOf(*event)->Record(StreamOf(stream)));
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) Check(StreamOf(stream).Wait(*EventOf(event)));
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || Check(EventOf(event)->Query());
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) Check(EventOf(event)->Synchronize());
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex /*index*/) const override {
    TORCH_CHECK(start != nullptr && end != nullptr, "elapsed_time needs both events recorded");
    return Check(EventOf(start)->ElapsedMs(*EventOf(end)));
  }
  void destroyEvent(void* event, const c10::DeviceIndex /*index*/) const noexcept override {
    delete EventOf(event);
  }

  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    GetDeviceAllocator().recordStream(data, stream);
  }
};

C10_REGISTER_GUARD_IMPL(HPU, HpuGuard);

}  // namespace
}  // namespace hpu::torch_backend

namespace at {

// PyTorch looks this class up by exactly this name.
struct HPUHooks final : HPUHooksInterface {
  explicit HPUHooks(HPUHooksArgs /*args*/) {}

  void init() const override { hpu::torch_backend::AcquiredDevice(); }
  bool hasHPU() const override { return true; }
  // torch takes the built accelerator as the current one and refuses two of them. In a CUDA wheel
  // with a CUDA card that is CUDA; hpu then works by name and is not torch.accelerator's device.
  bool isBuilt() const override { return !at::detail::getCUDAHooks().isBuilt(); }
  bool isAvailable() const override { return deviceCount() > 0; }
  bool hasPrimaryContext(DeviceIndex /*index*/) const override {
    return hpu::runtime::Device::Get().acquired();
  }
  DeviceIndex deviceCount() const override {
    return static_cast<DeviceIndex>(hpu::runtime::Device::Get().Count());
  }
  void setCurrentDevice(DeviceIndex index) const override {
    hpu::torch_backend::CheckDeviceIndex(index);
  }
  DeviceIndex getCurrentDevice() const override { return 0; }
  DeviceIndex exchangeDevice(DeviceIndex index) const override {
    hpu::torch_backend::CheckDeviceIndex(index);
    return 0;
  }
  DeviceIndex maybeExchangeDevice(DeviceIndex index) const override {
    return exchangeDevice(index);
  }
  Device getDeviceFromPtr(void* /*data*/) const override { return hpu::torch_backend::kHpuDevice; }
  bool isPinnedPtr(const void* data) const override {
    hpu::runtime::Device& device = hpu::runtime::Device::Get();
    return device.acquired() && device.host_allocator().Find(data) != nullptr;
  }
  Allocator* getPinnedMemoryAllocator() const override {
    return &hpu::torch_backend::GetPinnedAllocator();
  }
  const Generator& getDefaultGenerator(DeviceIndex /*index*/) const override {
    return hpu::torch_backend::DefaultGenerator();
  }
  Generator getNewGenerator(DeviceIndex /*index*/) const override {
    return Generator(c10::make_intrusive<hpu::torch_backend::HpuGenerator>());
  }
};

REGISTER_HPU_HOOKS(HPUHooks);

}  // namespace at
