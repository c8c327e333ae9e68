// The steps of a batch: its files are read, its images are decoded into the caller's memory, parts
// of arrays are copied there, or their blobs are found. All of them run on threads of a Loader.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "data_loader/blobs.h"
#include "data_loader/buffers.h"
#include "data_loader/thread_pool.h"
#include "data_loader/transform.h"
#include "data_loader/views.h"

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
  Size size;  // of images
  // Whether content is there and, of images, size.
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

// Whether files must be JPEG.
enum class Content : uint8_t { kImages, kAnything };

// The memory that the images of a batch are written to, one behind the other, and their form.
struct Target {
  uint8_t* first = nullptr;
  Size size;
  Form form;

  size_t bytes_each() const { return size_t{3} * size.width * size.height * form.element_bytes(); }
};

// The memory that copies are written to, one behind the other. Each has `bytes_each` bytes.
struct CopyTarget {
  uint8_t* first = nullptr;
  size_t bytes_each = 0;
};

// Tasks that write into the caller's memory.
class Batch {
 public:
  bool Wait(std::chrono::milliseconds time) { return left_.WaitFor(time); }
  // The error of the first task that failed. Only after Wait has returned true.
  absl::Status status() const;
  // From now on no task begins, and the target is not written when this has returned.
  void Cancel();

 private:
  friend class Loader;
  using Task = std::function<absl::Status(size_t)>;
  Batch(size_t count, Task task);
  void Run(size_t index);
  // Around a task; false: it was cancelled.
  bool Begin();
  void End();

  const Task task_;
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
  Loader(int readers, int decoders, Settings settings);
  // Batches that have not finished never will.
  ~Loader() = default;

  std::shared_ptr<Files> Read(std::vector<std::string> paths, Content content = Content::kImages);
  // JPEG files whose contents are there already, and are copied. `names` stand in errors.
  std::shared_ptr<Files> Take(std::vector<std::string> names,
                              std::span<const std::span<const uint8_t>> contents);
  // Every file must be there, and there is a plan for each. Files are given back when they have
  // been decoded.
  std::shared_ptr<Batch> Decode(std::shared_ptr<Files> files, std::vector<Plan> plans,
                                Target target, Filter filter = Filter::kBilinear);
  // The sources must stay as they are until the batch has finished or was cancelled.
  std::shared_ptr<Batch> Copy(std::vector<View> views, CopyTarget target);
  // Fills `found`, which the caller must not read before the batch has finished. The same holds for
  // the sources as of Copy.
  std::shared_ptr<Batch> Find(std::vector<View> labels, size_t most,
                              std::shared_ptr<std::vector<std::vector<Blobs>>> found);

 private:
  std::shared_ptr<Batch> Start(size_t count, Batch::Task task);

  const Settings settings_;
  Buffers buffers_;
  ThreadPool readers_;
  ThreadPool decoders_;
};

}  // namespace hpu::data_loader
