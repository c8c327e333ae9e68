#include "backend/client/py_program.h"

#include <pybind11/stl.h>

#include "backend/client/py_records.h"

namespace hpu::client {
namespace {

namespace py = pybind11;

const char* OriginName(Origin origin) {
  switch (origin) {
    case Origin::kCompiled:
      return "compiled";
    case Origin::kCoalesced:
      return "coalesced";
    case Origin::kStore:
      return "store";
  }
  return "";
}

// Read-only bytes for Python. They share the blob and are not copied.
class BlobView {
 public:
  explicit BlobView(store::Blob blob) : blob_(std::move(blob)) {}
  py::buffer_info Describe() const {
    return py::buffer_info(const_cast<uint8_t*>(blob_->data()), 1,
                           py::format_descriptor<uint8_t>::format(), 1, {size()}, {1},
                           /*readonly=*/true);
  }
  py::bytes ToBytes() const {
    return py::bytes(reinterpret_cast<const char*>(blob_->data()), blob_->size());
  }
  py::ssize_t size() const { return static_cast<py::ssize_t>(blob_->size()); }

 private:
  store::Blob blob_;
};

BlobView ProgramOf(const LoadedProgram& loaded) { return BlobView(loaded.entry.blobs[0]); }

std::vector<BlobView> RecipesOf(const LoadedProgram& loaded) {
  std::vector<BlobView> views;
  for (size_t i = 1; i < loaded.entry.blobs.size(); ++i) views.emplace_back(loaded.entry.blobs[i]);
  return views;
}

}  // namespace

py::list FactorList(const std::vector<store::KeyFactor>& factors) {
  py::list list;
  for (const store::KeyFactor& factor : factors) {
    list.append(py::make_tuple(factor.name, factor.value));
  }
  return list;
}

py::dict ManifestDict(const store::Manifest& manifest) {
  py::list recipes;
  for (const store::BlobRef& recipe : manifest.recipes) {
    recipes.append(py::make_tuple(ToHex(recipe.digest), recipe.size_bytes));
  }
  py::dict dict;
  dict["key"] = ToHex(manifest.key());
  dict["program"] = py::make_tuple(ToHex(manifest.program.digest), manifest.program.size_bytes);
  dict["recipes"] = recipes;
  dict["compiler_build_id"] = manifest.content.compiler_build_id;
  dict["device_kind"] = manifest.content.device_kind;
  dict["isa_level"] = manifest.content.isa_level;
  dict["compile_ms"] = static_cast<double>(manifest.compile_micros) / 1000;
  dict["created"] = manifest.created_unix_seconds;
  dict["factors"] = FactorList(store::ContentFactors(manifest.content));
  return dict;
}

py::dict AliasDict(const store::Alias& alias) {
  py::dict dict;
  dict["front_end_key"] = ToHex(alias.front_end_key);
  dict["label"] = alias.label;
  dict["created"] = alias.created_unix_seconds;
  dict["factors"] = FactorList(alias.factors);
  return dict;
}

void BindProgram(py::module_& module) {
  py::class_<BlobView>(module, "BlobView", py::buffer_protocol(),
                       "Read-only bytes; memoryview() and bytes() work on it.")
      .def_buffer(&BlobView::Describe)
      .def("__len__", &BlobView::size)
      .def("__bytes__", &BlobView::ToBytes);

  py::class_<LoadedProgram>(module, "LoadedProgram", "A program with its recipes, verified.")
      .def_property_readonly("program", &ProgramOf)
      .def_property_readonly("recipes", &RecipesOf)
      .def_property_readonly("origin", [](const LoadedProgram& p) { return OriginName(p.origin); })
      .def_property_readonly("compile_ms",
                             [](const LoadedProgram& p) {
                               return static_cast<double>(p.entry.manifest.compile_micros) / 1000;
                             })
      .def_readonly("fetch_ms", &LoadedProgram::fetch_ms)
      .def_property_readonly(
          "signed_manifest",
          [](const LoadedProgram& p) { return ToTuple(p.entry.signed_manifest); })
      .def_property_readonly("signed_alias",
                             [](const LoadedProgram& p) -> std::optional<RecordTuple> {
                               if (!p.alias.has_value()) return std::nullopt;
                               return ToTuple(p.alias->signed_record);
                             })
      .def_property_readonly("manifest",
                             [](const LoadedProgram& p) { return ManifestDict(p.entry.manifest); });
}

}  // namespace hpu::client
