// The one device of this process. It is acquired at first use and released only by the end of the
// process.
//
// Fork: a child that was forked after the parent acquired the device shares none of its threads or
// mappings. Every call in the child returns FAILED_PRECONDITION, and freeing memory that the parent
// allocated does nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "backend/runtime/device_allocator.h"
#include "backend/runtime/host_memory.h"
#include "backend/runtime/stream.h"
#include "base/status.h"
#include "synapse/include/synapse_api.h"
#include "synapse/loader.h"

namespace hpu::runtime {

struct DeviceProperties {
  std::string name;  // "GAUDI2"
  synDeviceInfo info = {};
  uint64_t total_bytes = 0;       // device memory
  bool emulated = false;          // the library is our emulator
  bool host_addressable = false;  // device addresses are valid host pointers
};

class Device {
 public:
  // The default stream, a pool of eight, and those that are taken for one purpose (TakeStream).
  static constexpr uint32_t kMaxStreams = Stream::kMostStreams;

  // Returns the process's device; acquires nothing.
  static Device& Get();

  // Sets where libSynapse.so is if HPU_SYNAPSE_LIBRARY is not set. Call it before the first use.
  void SetDefaultLibrary(const std::string& path);

  // These need no device. EnsureLibrary loads and starts the library.
  absl::Status EnsureLibrary();
  const std::string& library_path() const { return library_path_; }
  // Returns 1 if a device is present or acquired, else 0. Never fails.
  int Count();
  // Returns the number of devices of this host that processes may hold, one each. Never fails.
  int HostCount();
  // These return the type that would be acquired ("gaudi2"), and the ISA level that programs are
  // asked for: the emulator's key EMULATOR_ISA_LEVEL, by default the host's level ("" for a card).
  absl::StatusOr<std::string> Kind();
  absl::StatusOr<std::string> IsaLevel();
  absl::StatusOr<bool> IsEmulated();
  // Return the version of a kernel in the libraries of GC_KERNEL_PATH, or 0 if none has the guid,
  // and a line "guid version" for each kernel of theirs. A card looks for them by itself: 0 and "".
  absl::StatusOr<uint32_t> FindKernel(const std::string& guid);
  absl::StatusOr<std::string> ListKernels();
  // Returns the text of the driver or library version.
  absl::StatusOr<std::string> DriverVersion();
  // Sets the compute threads of the emulated device; the number is remembered until it is acquired.
  absl::Status SetNumThreads(int count);

  // Acquires the device if that has not happened yet. Cheap afterwards.
  absl::Status EnsureAcquired() {
    if (state_.load(std::memory_order_acquire) == State::kAcquired) return absl::OkStatus();
    return Acquire();
  }
  bool acquired() const { return state_.load(std::memory_order_acquire) == State::kAcquired; }
  bool in_bad_fork() const { return state_.load(std::memory_order_acquire) == State::kForked; }
  // Returns OK if the device is acquired and this is not a forked child.
  absl::Status CheckUsable() const {
    if (state_.load(std::memory_order_acquire) == State::kAcquired) return absl::OkStatus();
    return NotUsable();
  }

  // The following need an acquired device.
  const SynapseFunctions& api() const { return *api_; }
  synDeviceId id() const { return id_; }
  const DeviceProperties& properties() const { return properties_; }
  DeviceAllocator& allocator() { return *allocator_; }
  HostAllocator& host_allocator() { return *host_allocator_; }
  // Creates the stream at its first use. `id` < kMaxStreams.
  absl::StatusOr<Stream*> GetStream(uint32_t id);
  absl::StatusOr<Stream*> CurrentStream() { return GetStream(CurrentStreamId()); }
  // Returns whether there is any stream but the default one. From then on uses of memory are noted
  // (DeviceAllocator::Use); before, all of them were the default stream's, at most at the position
  // that untracked_position() returns.
  bool has_several_streams() const { return untracked_position() != 0; }
  uint64_t untracked_position() const {
    return untracked_position_.load(std::memory_order_acquire);
  }
  // Says that there were uses up to now that were not noted.
  void RaiseUntrackedPosition();
  // Returns the id of the next stream of the pool, round robin.
  uint32_t NextStreamId();
  // Returns the id of a stream that nobody else uses until it is given back, or nullopt where all
  // are taken.
  std::optional<uint32_t> TakeStream();
  void GiveBackStream(uint32_t id);
  absl::Status Synchronize();
  absl::Status MemoryInfo(uint64_t* free_bytes, uint64_t* total_bytes);
  // Gives cached blocks back to the device.
  absl::Status EmptyCache();
  // Only DirectAccess calls these.
  void BeginHostAccess(uint64_t address, uint64_t bytes);
  void EndHostAccess();
  void NotifyHostWrite(uint64_t address, uint64_t bytes);

 private:
  enum class State : int { kNone = 0, kAcquired = 1, kForked = 2 };

  Device();
  absl::Status Acquire();
  absl::Status AcquireLocked();
  absl::Status TakeDevice();
  void AllowOverlappingInputs();
  absl::Status NotUsable() const;
  absl::Status EnsureLibraryLocked();
  absl::StatusOr<synDeviceType> FindType();
  static void AfterForkInChild();

  std::atomic<State> state_{State::kNone};
  std::atomic<bool> acquiring_{false};

  // Guards the members below until the device is acquired; they are constant afterwards.
  std::mutex mutex_;
  std::string default_library_;
  std::string library_path_;
  const SynapseFunctions* api_ = nullptr;
  int num_threads_ = 0;  // 0: not set
  synDeviceId id_ = SYN_INVALID_DEVICE_ID;
  DeviceProperties properties_;
  std::unique_ptr<DeviceAllocator> allocator_;
  std::unique_ptr<HostAllocator> host_allocator_;

  std::array<std::atomic<Stream*>, kMaxStreams> streams_{};  // created under mutex_, never freed
  std::atomic<uint64_t> untracked_position_{0};              // 0: there is one stream
  std::atomic<uint32_t> next_stream_{0};
  std::array<std::atomic<bool>, kMaxStreams> taken_streams_{};
};

}  // namespace hpu::runtime
