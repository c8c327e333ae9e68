#include "data_loader/batch.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/regular_file.h"
#include "data_loader/jpeg.h"

namespace hpu::data_loader {
namespace {

constexpr size_t kMostBytes = size_t{1} << 30;  // of a file

absl::Status ReadOne(File& file, Buffers& buffers) {
  ASSIGN_OR_RETURN(const RegularFile opened, RegularFile::Open(file.path));
  const auto size = static_cast<size_t>(opened.info().st_size);
  if (size > kMostBytes) return InvalidArgument("the file has more than ", kMostBytes, " bytes");
  file.content = buffers.Take(size);
  for (size_t had = 0; had < size;) {
    const ssize_t count = pread(opened.descriptor(), file.content.bytes().data() + had, size - had,
                                static_cast<off_t>(had));
    if (count < 0 && errno != EINTR) return DataLoss("cannot be read: ", std::strerror(errno));
    if (count == 0) file.content.set_size(had);
    if (count == 0) break;
    had += static_cast<size_t>(std::max<ssize_t>(count, 0));
  }
  ASSIGN_OR_RETURN(file.size, ReadJpegSize(std::as_const(file.content).bytes()));
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

void Files::SetPixels(size_t index, std::span<const uint8_t> rgb, Size size) {
  File& file = entries_[index];
  file.content = Buffer(std::bit_ceil(rgb.size()));
  file.content.set_size(rgb.size());
  std::copy(rgb.begin(), rgb.end(), file.content.bytes().begin());
  file.is_jpeg = false;
  file.size = size;
  file.status = absl::OkStatus();
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

bool Batch::Begin() {
  const std::lock_guard lock(mutex_);
  if (cancelled_) return false;
  ++running_;
  return true;
}

void Batch::End() {
  {
    const std::lock_guard lock(mutex_);
    if (--running_ == 0) idle_.notify_all();
  }
  left_.Finish();
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
  readers_.Add(files->entries_.size(), [this, files](size_t i) {
    File& file = files->entries_[i];
    file.status = ReadOne(file, buffers_);
    files->left_.Finish();
  });
  return files;
}

std::shared_ptr<Batch> Loader::Decode(std::shared_ptr<Files> files, std::vector<Plan> plans,
                                      Target target) {
  const std::shared_ptr<Batch> batch(new Batch(std::move(files), std::move(plans), target));
  decoders_.Add(batch->statuses_.size(), [this, batch](size_t i) {
    if (!batch->Begin()) return;
    File& file = batch->files_->entries_[i];
    batch->statuses_[i] = DecodeOne(file, batch->plans_[i], batch->target_, i);
    buffers_.GiveBack(std::move(file.content));
    batch->End();
  });
  return batch;
}

absl::Status Loader::DecodeOne(const File& file, const Plan& plan, const Target& target,
                               size_t index) {
  thread_local Workspace workspace;
  const Image image{.bytes = file.content.bytes(), .is_jpeg = file.is_jpeg, .size = file.size};
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
