// The two steps of a batch: its files are read, then its images are decoded into the caller's
// memory. Both run on threads of a Loader.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "data_loader/buffers.h"
#include "data_loader/thread_pool.h"
#include "data_loader/transform.h"

namespace hpu::data_loader {

// Counts tasks of a step that still have to run.
class Countdown {
 public:
  explicit Countdown(size_t count) : left_(count) {}
  void Finish();
  // Returns whether all have finished.
  bool WaitFor(std::chrono::milliseconds time);

 private:
  std::mutex mutex_;
  std::condition_variable finished_;
  size_t left_;  // guarded by mutex_
};

struct File {
  std::string path;
  // The content or, after SetPixels, pixels.
  Buffer content;
  bool is_jpeg = true;
  Size size;
  // Whether size and content are there.
  absl::Status status;
};

// Files of a batch. The entries may be used when Wait has returned true, by one thread.
class Files {
 public:
  explicit Files(std::vector<std::string> paths);
  bool Wait(std::chrono::milliseconds time) { return left_.WaitFor(time); }
  std::vector<File>& entries() { return entries_; }
  // Takes RGB pixels in place of what was read.
  void SetPixels(size_t index, std::span<const uint8_t> rgb, Size size);

 private:
  friend class Loader;

  std::vector<File> entries_;
  Countdown left_;
};

// Where the images of a batch go: image i to planes + i * 3 * size, in planes of floats.
struct Target {
  float* planes = nullptr;
  Size size;
};

class Batch {
 public:
  bool Wait(std::chrono::milliseconds time) { return left_.WaitFor(time); }
  // The error of the first image that failed. Only after Wait has returned true.
  absl::Status status() const;
  // From now on no image begins to be decoded, and the target is not written when this has
  // returned.
  void Cancel();

 private:
  friend class Loader;
  Batch(std::shared_ptr<Files> files, std::vector<Plan> plans, Target target);
  // Around the decoding of an image; false: it was cancelled.
  bool Begin();
  void End();

  std::shared_ptr<Files> files_;
  const std::vector<Plan> plans_;
  const Target target_;
  std::vector<absl::Status> statuses_;
  Countdown left_;
  std::mutex mutex_;
  std::condition_variable idle_;
  bool cancelled_ = false;  // guarded by mutex_
  int running_ = 0;         // guarded by mutex_
};

// All methods may be called from one thread at a time. Files and batches may be waited for from
// any.
class Loader {
 public:
  // `table` has 3 x 256 values (WritePlanes).
  Loader(int readers, int decoders, Settings settings, std::vector<float> table);
  // Batches that have not finished never will.
  ~Loader() = default;

  std::shared_ptr<Files> Read(std::vector<std::string> paths);
  // Every file must be there, and there is a plan for each.
  std::shared_ptr<Batch> Decode(std::shared_ptr<Files> files, std::vector<Plan> plans,
                                Target target);

 private:
  absl::Status DecodeOne(const File& file, const Plan& plan, const Target& target, size_t index);

  const Settings settings_;
  const std::vector<float> table_;
  Buffers buffers_;
  ThreadPool readers_;
  ThreadPool decoders_;
};

}  // namespace hpu::data_loader
