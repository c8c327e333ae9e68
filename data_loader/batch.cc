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

absl::Status ReadOne(File& file, Content content, Buffers& buffers) {
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
  if (content == Content::kAnything) return absl::OkStatus();
  ASSIGN_OR_RETURN(file.size, ReadJpegSize(std::as_const(file.content).bytes()));
  return absl::OkStatus();
}

absl::Status DecodeOne(const File& file, const Plan& plan, const Settings& settings,
                       const Target& target, size_t index) {
  thread_local Workspace workspace;
  const Image image{.bytes = file.content.bytes(), .is_jpeg = file.is_jpeg, .size = file.size};
  auto result = RunStages(image, plan, settings, workspace);
  if (!result.ok()) return Annotate(result.status(), file.path);
  const Pixels& pixels = **result;
  if (pixels.size().width != target.size.width || pixels.size().height != target.size.height) {
    return InvalidArgument(file.path, ": the image became ", pixels.size().width, " x ",
                           pixels.size().height, " pixels, and the batch has ", target.size.width,
                           " x ", target.size.height);
  }
  WriteElements(pixels, plan.flip, target.form, target.first + index * target.bytes_each());
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

Batch::Batch(size_t count, Task task) : task_(std::move(task)), statuses_(count), left_(count) {}

void Batch::Run(size_t index) {
  if (!Begin()) return;
  statuses_[index] = task_(index);
  End();
}

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

Loader::Loader(int readers, int decoders, Settings settings)
    : settings_(settings), readers_(readers), decoders_(decoders) {}

std::shared_ptr<Files> Loader::Read(std::vector<std::string> paths, Content content) {
  auto files = std::make_shared<Files>(std::move(paths));
  readers_.Add(files->entries_.size(), [this, files, content](size_t i) {
    File& file = files->entries_[i];
    file.status = ReadOne(file, content, buffers_);
    files->left_.Finish();
  });
  return files;
}

std::shared_ptr<Files> Loader::Take(std::vector<std::string> names,
                                    std::span<const std::span<const uint8_t>> contents) {
  auto files = std::make_shared<Files>(std::move(names));
  for (size_t i = 0; i < contents.size(); ++i) {
    File& file = files->entries_[i];
    file.content = buffers_.Take(contents[i].size());
    std::copy(contents[i].begin(), contents[i].end(), file.content.bytes().begin());
    const auto size = ReadJpegSize(contents[i]);
    file.status = size.status();
    if (size.ok()) file.size = *size;
    files->left_.Finish();
  }
  return files;
}

std::shared_ptr<Batch> Loader::Start(size_t count, Batch::Task task) {
  const std::shared_ptr<Batch> batch(new Batch(count, std::move(task)));
  decoders_.Add(count, [batch](size_t i) { batch->Run(i); });
  return batch;
}

std::shared_ptr<Batch> Loader::Decode(std::shared_ptr<Files> files, std::vector<Plan> plans,
                                      Target target, Filter filter) {
  Settings settings = settings_;
  settings.filter = filter;
  const size_t count = files->entries_.size();
  return Start(count, [this, settings, files = std::move(files), plans = std::move(plans),
                       target = std::move(target)](size_t i) {
    File& file = files->entries_[i];
    absl::Status status = DecodeOne(file, plans[i], settings, target, i);
    buffers_.GiveBack(std::move(file.content));
    return status;
  });
}

std::shared_ptr<Batch> Loader::Copy(std::vector<View> views, CopyTarget target) {
  const size_t count = views.size();
  return Start(count, [views = std::move(views), target](size_t i) {
    CopyView(views[i], target.first + i * target.bytes_each);
    return absl::OkStatus();
  });
}

std::shared_ptr<Batch> Loader::Find(std::vector<View> labels, size_t most,
                                    std::shared_ptr<std::vector<std::vector<Blobs>>> found) {
  const size_t count = labels.size();
  found->resize(count);
  return Start(count, [labels = std::move(labels), most, found = std::move(found)](size_t i) {
    (*found)[i] = FindBlobs(labels[i], most);
    return absl::OkStatus();
  });
}

}  // namespace hpu::data_loader
