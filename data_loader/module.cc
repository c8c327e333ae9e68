// Extension module habana_dataloader._native; _native.pyi is its documentation. It knows no torch.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "data_loader/batch.h"
#include "data_loader/jpeg.h"

namespace py = pybind11;

namespace hpu::data_loader {
namespace {

// Waits return to Python this often, so that Ctrl-C ends them.
constexpr std::chrono::milliseconds kSlice{50};

using StageNumbers = std::array<int, 10>;
using PlanNumbers = std::pair<bool, std::vector<StageNumbers>>;

Plan ToPlan(const PlanNumbers& numbers) {
  Plan plan{.stages = {}, .flip = numbers.first};
  for (const StageNumbers& n : numbers.second) {
    plan.stages.push_back({.source = {n[0], n[1], n[2], n[3]},
                           .size = {n[4], n[5]},
                           .window = {n[6], n[7], n[8], n[9]}});
  }
  if (plan.stages.empty()) throw py::value_error("a plan has at least one stage");
  return plan;
}

Settings ToSettings(bool scaled, bool tall_first, const std::string& level) {
  Settings settings{.scaled_decoding = scaled, .tall_first = tall_first};
  for (const Kernels& kernels : AvailableKernels()) {
    if (level.empty() || kernels.name == level) settings.kernels = &kernels;
  }
  if (settings.kernels != nullptr) return settings;
  throw py::value_error("this processor does not have the ISA level " + level);
}

Form ToForm(const py::bytes& table, bool interleaved, bool bgr) {
  const std::string_view bytes = table;
  Form form{.table = {bytes.begin(), bytes.end()}, .interleaved = interleaved, .bgr = bgr};
  const size_t each = form.element_bytes();
  if (bytes.size() != each * 3 * 256 || (each != 1 && each != 2 && each != 4)) {
    throw py::value_error("the table has 3 x 256 elements of one, two or four bytes");
  }
  return form;
}

Filter ToFilter(const std::string& name) {
  constexpr std::pair<const char*, Filter> kFilters[] = {{"nearest", Filter::kNearest},
                                                         {"box", Filter::kBox},
                                                         {"bilinear", Filter::kBilinear},
                                                         {"bicubic", Filter::kBicubic},
                                                         {"lanczos", Filter::kLanczos}};
  for (const auto& [known, filter] : kFilters) {
    if (name == known) return filter;
  }
  throw py::value_error("there is no filter " + name);
}

// `table` is empty, or has 256 elements for each position of the first axis.
View ToView(const py::array& array, const std::shared_ptr<const std::vector<uint8_t>>& table) {
  View view{.first = static_cast<const uint8_t*>(array.data()),
            .axes = {},
            .element_bytes = static_cast<int>(array.itemsize()),
            .table = table->empty() ? nullptr : table};
  for (py::ssize_t i = 0; i < array.ndim(); ++i) {
    view.axes.push_back({array.shape(i), array.strides(i)});
  }
  if (view.axes.empty()) throw py::value_error("an array has at least one axis");
  const int bytes = view.element_bytes;
  if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) {
    throw py::value_error("elements have one, two, four or eight bytes");
  }
  if (view.table == nullptr) return view;
  const size_t values = size_t{256} * view.axes[0].size;
  view.table_bytes = values == 0 ? 0 : static_cast<int>(table->size() / values);
  if (bytes != 1 || values * view.table_bytes != table->size() ||
      (view.table_bytes != 1 && view.table_bytes != 2 && view.table_bytes != 4)) {
    throw py::value_error(
        "a table is for arrays of bytes, and has 256 elements of one, two or four bytes for each "
        "position of the first axis");
  }
  return view;
}

template <typename Step>
void WaitFor(Step& step) {
  while (true) {
    {
      const py::gil_scoped_release release;
      if (step.Wait(kSlice)) return;
    }
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

// The bytes of one file, for the buffer protocol.
class PyContent {
 public:
  PyContent(std::shared_ptr<Files> files, size_t index) : files_(std::move(files)), index_(index) {}
  py::buffer_info Buffer() const {
    const std::span<uint8_t> bytes = files_->entries()[index_].content.bytes();
    return {bytes.data(), static_cast<py::ssize_t>(bytes.size()), /*readonly=*/true};
  }

 private:
  std::shared_ptr<Files> files_;
  size_t index_;
};

// The files of a batch. Python keeps the loader.
class PyFiles {
 public:
  explicit PyFiles(std::shared_ptr<Files> files) : files_(std::move(files)) {}
  const std::shared_ptr<Files>& files() const { return files_; }

  std::vector<std::optional<std::pair<int, int>>> Sizes() {
    WaitFor(*files_);
    std::vector<std::optional<std::pair<int, int>>> sizes;
    for (const File& file : files_->entries()) {
      sizes.emplace_back(std::nullopt);
      if (file.status.ok()) sizes.back().emplace(file.size.width, file.size.height);
    }
    return sizes;
  }
  bool Done() { return files_->Wait(std::chrono::milliseconds(0)); }
  std::string Error(size_t index) const {
    return std::string(files_->entries().at(index).status.message());
  }
  void SetPixels(size_t index, const py::bytes& rgb, int width, int height) {
    const std::string_view bytes = rgb;
    if (width <= 0 || height <= 0 || bytes.size() != size_t{3} * width * height ||
        index >= files_->entries().size()) {
      throw py::value_error("the pixels do not have the given size, or there is no such file");
    }
    files_->SetPixels(index, {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
                      {width, height});
  }
  std::optional<PyContent> ContentOf(size_t index) {
    WaitFor(*files_);
    if (!files_->entries().at(index).status.ok()) return std::nullopt;
    return PyContent(files_, index);
  }

 private:
  std::shared_ptr<Files> files_;
};

class PyBatch {
 public:
  // `sources` are what the batch reads.
  explicit PyBatch(std::shared_ptr<Batch> batch, std::vector<py::array> sources = {})
      : batch_(std::move(batch)), sources_(std::move(sources)) {}
  PyBatch(PyBatch&&) = default;
  PyBatch& operator=(PyBatch&&) = delete;
  // The memory of the batch may go away after this.
  ~PyBatch() { Cancel(); }

  void Cancel() {
    if (batch_ != nullptr && getpid() == process_) batch_->Cancel();
  }

  std::optional<std::string> Wait() {
    WaitFor(*batch_);
    const absl::Status status = batch_->status();
    if (status.ok()) return std::nullopt;
    return std::string(status.message());
  }
  bool Done() { return batch_->Wait(std::chrono::milliseconds(0)); }

 private:
  std::shared_ptr<Batch> batch_;
  std::vector<py::array> sources_;
  pid_t process_ = getpid();
};

using Cuboids = std::vector<std::array<int64_t, 6>>;

class PySearch : public PyBatch {
 public:
  using Found = std::shared_ptr<std::vector<std::vector<Blobs>>>;
  PySearch(std::shared_ptr<Batch> batch, Found found, std::vector<py::array> sources)
      : PyBatch(std::move(batch), std::move(sources)), found_(std::move(found)) {}

  // For each volume pairs of a label and cuboids.
  std::vector<std::vector<std::pair<int, Cuboids>>> Result() {
    static_cast<void>(Wait());
    std::vector<std::vector<std::pair<int, Cuboids>>> result;
    for (const std::vector<Blobs>& volume : *found_) {
      result.emplace_back();
      for (const Blobs& blobs : volume) {
        Cuboids cuboids;
        for (const auto& [z, y, x] : blobs.cuboids) {
          cuboids.push_back({z.begin, z.end, y.begin, y.end, x.begin, x.end});
        }
        result.back().emplace_back(blobs.label, std::move(cuboids));
      }
    }
    return result;
  }

 private:
  Found found_;
};

class PyLoader {
 public:
  PyLoader(int readers, int decoders, bool scaled, bool tall_first, const std::string& level) {
    if (readers < 1 || decoders < 1) throw py::value_error("there is at least one thread");
    loader_ = std::make_unique<Loader>(readers, decoders, ToSettings(scaled, tall_first, level));
  }
  PyLoader(const PyLoader&) = delete;
  PyLoader& operator=(const PyLoader&) = delete;
  ~PyLoader() { Close(); }

  // A forked child does not have the threads and could wait for them for ever.
  void Close() {
    if (getpid() != process_) {
      static_cast<void>(loader_.release());
      return;
    }
    const py::gil_scoped_release release;
    loader_.reset();
  }

  PyFiles Read(std::vector<std::string> paths, bool images) {
    return PyFiles(Opened().Read(std::move(paths), images ? Content::kImages : Content::kAnything));
  }

  PyFiles Take(std::vector<std::string> names, const std::vector<py::array>& contents) {
    if (names.size() != contents.size()) throw py::value_error("there is one name for each file");
    std::vector<std::span<const uint8_t>> bytes;
    for (const py::array& array : contents) {
      if (array.ndim() != 1 || array.itemsize() != 1 || (array.flags() & py::array::c_style) == 0) {
        throw py::value_error("contents are arrays of bytes with one axis and without gaps");
      }
      bytes.emplace_back(static_cast<const uint8_t*>(array.data()), array.size());
    }
    return PyFiles(Opened().Take(std::move(names), bytes));
  }

  PyBatch Copy(std::vector<py::array> arrays, uintptr_t address, const py::bytes& table) {
    const std::string_view bytes = table;
    const auto shared = std::make_shared<const std::vector<uint8_t>>(bytes.begin(), bytes.end());
    std::vector<View> views;
    views.reserve(arrays.size());
    for (const py::array& array : arrays) {
      views.push_back(ToView(array, shared));
      if (views.back().result_bytes() != views.front().result_bytes()) {
        throw py::value_error("all arrays of a batch have as many elements");
      }
    }
    const CopyTarget target{.first = reinterpret_cast<uint8_t*>(address),
                            .bytes_each = views.empty() ? 0 : views.front().result_bytes()};
    return PyBatch(Opened().Copy(std::move(views), target), std::move(arrays));
  }

  PySearch FindBlobs(std::vector<py::array> labels, size_t most) {
    std::vector<View> views;
    views.reserve(labels.size());
    const auto no_table = std::make_shared<const std::vector<uint8_t>>();
    for (const py::array& array : labels) {
      views.push_back(ToView(array, no_table));
      if (views.back().axes.size() != 3 || views.back().element_bytes != 1) {
        throw py::value_error("labels are arrays of bytes with three axes");
      }
    }
    auto found = std::make_shared<std::vector<std::vector<Blobs>>>();
    auto batch = Opened().Find(std::move(views), most, found);
    return {std::move(batch), std::move(found), std::move(labels)};
  }

  PyBatch Decode(const PyFiles& files, const std::vector<PlanNumbers>& plans, uintptr_t address,
                 int width, int height, const py::bytes& table, bool interleaved, bool bgr,
                 const std::string& filter) {
    const auto& entries = files.files()->entries();
    if (plans.size() != entries.size()) throw py::value_error("there is one plan for each file");
    for (const File& file : entries) {
      if (!file.status.ok()) throw py::value_error(file.path + " was not read");
    }
    std::vector<Plan> converted;
    converted.reserve(plans.size());
    for (const PlanNumbers& plan : plans) converted.push_back(ToPlan(plan));
    return PyBatch(Opened().Decode(files.files(), std::move(converted),
                                   {.first = reinterpret_cast<uint8_t*>(address),
                                    .size = {width, height},
                                    .form = ToForm(table, interleaved, bgr)},
                                   ToFilter(filter)));
  }

 private:
  Loader& Opened() {
    if (loader_ == nullptr || getpid() != process_) {
      throw py::value_error("the loader was closed, or belongs to another process");
    }
    return *loader_;
  }

  std::unique_ptr<Loader> loader_;
  pid_t process_ = getpid();
};

// RGB bytes, width, height.
std::tuple<py::bytes, int, int> RunPlan(const std::string& bytes, const PlanNumbers& plan,
                                        std::optional<std::pair<int, int>> size, bool scaled,
                                        bool tall_first, const std::string& level,
                                        const std::string& filter) {
  Workspace workspace;
  Image image{.bytes = {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
              .is_jpeg = !size.has_value(),
              .size = {}};
  if (size.has_value()) {
    image.size = {size->first, size->second};
    if (bytes.size() != size_t{3} * size->first * size->second) {
      throw py::value_error("the pixels do not have the given size");
    }
  } else {
    auto read = ReadJpegSize(image.bytes);
    if (!read.ok()) throw py::value_error(std::string(read.status().message()));
    image.size = *read;
  }
  Settings settings = ToSettings(scaled, tall_first, level);
  settings.filter = ToFilter(filter);
  auto result = RunStages(image, ToPlan(plan), settings, workspace);
  if (!result.ok()) throw py::value_error(std::string(result.status().message()));
  const auto [width, height] = (*result)->size();
  std::string rgb(size_t{3} * width * height, '\0');
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const int to = plan.first ? width - 1 - x : x;
      std::memcpy(&rgb[(static_cast<size_t>(y) * width + to) * 3],
                  (*result)->row(y) + static_cast<size_t>(x) * kPixelBytes, 3);
    }
  }
  return {py::bytes(rgb), width, height};
}

std::vector<std::string> Levels() {
  std::vector<std::string> names;
  for (const Kernels& kernels : AvailableKernels()) names.emplace_back(kernels.name);
  return names;
}

}  // namespace
}  // namespace hpu::data_loader

PYBIND11_MODULE(_native, m) {
  using namespace hpu::data_loader;  // NOLINT
  m.doc() = "JPEG files to normalised batches; see _native.pyi.";
  m.def("levels", &Levels);
  m.def("run_plan", &RunPlan, py::arg("bytes"), py::arg("plan"), py::arg("size") = py::none(),
        py::arg("scaled") = true, py::arg("tall_first") = true, py::arg("level") = "",
        py::arg("filter") = "bilinear");
  py::class_<PyContent>(m, "Content", py::buffer_protocol()).def_buffer(&PyContent::Buffer);
  py::class_<PyFiles>(m, "Files")
      .def("done", &PyFiles::Done)
      .def("sizes", &PyFiles::Sizes)
      .def("error", &PyFiles::Error)
      .def("content", &PyFiles::ContentOf)
      .def("set_pixels", &PyFiles::SetPixels);
  py::class_<PyBatch>(m, "Batch")
      .def("wait", &PyBatch::Wait)
      .def("done", &PyBatch::Done)
      .def("cancel", &PyBatch::Cancel);
  py::class_<PySearch, PyBatch>(m, "Search").def("result", &PySearch::Result);
  py::class_<PyLoader>(m, "Loader")
      .def(py::init<int, int, bool, bool, const std::string&>(), py::arg("readers"),
           py::arg("decoders"), py::arg("scaled") = true, py::arg("tall_first") = true,
           py::arg("level") = "")
      .def("read", &PyLoader::Read, py::arg("paths"), py::arg("images") = true)
      .def("take", &PyLoader::Take)
      .def("decode", &PyLoader::Decode, py::arg("files"), py::arg("plans"), py::arg("address"),
           py::arg("width"), py::arg("height"), py::arg("table"), py::arg("interleaved") = false,
           py::arg("bgr") = false, py::arg("filter") = "bilinear")
      .def("copy", &PyLoader::Copy, py::arg("arrays"), py::arg("address"),
           py::arg("table") = py::bytes())
      .def("find_blobs", &PyLoader::FindBlobs)
      .def("close", &PyLoader::Close);
}
