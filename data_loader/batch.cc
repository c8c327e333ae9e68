#include "data_loader/batch.h"

#include <algorithm>
#include <utility>

#include "base/regular_file.h"
#include "data_loader/jpeg.h"

namespace hpu::data_loader {
namespace {

constexpr size_t kMostBytes = size_t{1} << 30;  // of a file

std::span<const uint8_t> BytesOf(const File& file) {
  return {reinterpret_cast<const uint8_t*>(file.bytes.data()), file.bytes.size()};
}

absl::Status ReadOne(File& file) {
  ASSIGN_OR_RETURN(file.bytes, ReadRegularFile(file.path, kMostBytes));
  ASSIGN_OR_RETURN(file.size, ReadJpegSize(BytesOf(file)));
  return absl::OkStatus();
}

}  // namespace

void Countdown::Finish() {
  const std::lock_guard lock(mutex_);
  if (--left_ == 0) finished_.notify_all();
}

bool Countdown::WaitFor(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return finished_.wait_for(lock, time, [this] { return left_ == 0; });
}

Files::Files(std::vector<std::string> paths) : entries_(paths.size()), left_(paths.size()) {
  for (size_t i = 0; i < paths.size(); ++i) entries_[i].path = std::move(paths[i]);
}

Batch::Batch(std::shared_ptr<Files> files, std::vector<Plan> plans, Target target)
    : files_(std::move(files)),
      plans_(std::move(plans)),
      target_(target),
      statuses_(files_->entries().size()),
      left_(files_->entries().size()) {}

absl::Status Batch::status() const {
  const auto failed =
      std::find_if(statuses_.begin(), statuses_.end(), [](const auto& s) { return !s.ok(); });
  return failed == statuses_.end() ? absl::OkStatus() : *failed;
}

void Batch::Cancel() {
  std::unique_lock lock(mutex_);
  cancelled_ = true;
  idle_.wait(lock, [this] { return running_ == 0; });
}

Loader::Loader(int readers, int decoders, Settings settings, std::vector<float> table)
    : settings_(settings), table_(std::move(table)), readers_(readers), decoders_(decoders) {}

std::shared_ptr<Files> Loader::Read(std::vector<std::string> paths) {
  auto files = std::make_shared<Files>(std::move(paths));
  for (File& file : files->entries_) {
    readers_.Add([files, &file] {
      file.status = ReadOne(file);
      files->left_.Finish();
    });
  }
  return files;
}

std::shared_ptr<Batch> Loader::Decode(std::shared_ptr<Files> files, std::vector<Plan> plans,
                                      Target target) {
  const std::shared_ptr<Batch> batch(new Batch(std::move(files), std::move(plans), target));
  for (size_t i = 0; i < batch->statuses_.size(); ++i) {
    decoders_.Add([this, batch, i] {
      {
        const std::lock_guard lock(batch->mutex_);
        if (batch->cancelled_) return;
        ++batch->running_;
      }
      File& file = batch->files_->entries_[i];
      batch->statuses_[i] = DecodeOne(file, batch->plans_[i], batch->target_, i);
      std::string().swap(file.bytes);
      {
        const std::lock_guard lock(batch->mutex_);
        if (--batch->running_ == 0) batch->idle_.notify_all();
      }
      batch->left_.Finish();
    });
  }
  return batch;
}

absl::Status Loader::DecodeOne(const File& file, const Plan& plan, const Target& target,
                               size_t index) {
  thread_local Workspace workspace;
  const Image image{.bytes = BytesOf(file), .is_jpeg = file.is_jpeg, .size = file.size};
  auto result = RunStages(image, plan, settings_, workspace);
  if (!result.ok()) return Annotate(result.status(), file.path);
  const Pixels& pixels = **result;
  if (pixels.size().width != target.size.width || pixels.size().height != target.size.height) {
    return InvalidArgument(file.path, ": the image became ", pixels.size().width, " x ",
                           pixels.size().height, " pixels, and the batch has ", target.size.width,
                           " x ", target.size.height);
  }
  const size_t floats = size_t{3} * target.size.width * target.size.height;
  WritePlanes(pixels, plan.flip, table_, target.planes + index * floats);
  return absl::OkStatus();
}

}  // namespace hpu::data_loader
