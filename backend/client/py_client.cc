#include "backend/client/py_client.h"

#include <pybind11/stl.h>

#include <chrono>
#include <map>
#include <utility>

#include "backend/client/daemon.h"
#include "backend/client/file_lock.h"
#include "backend/client/key_builder.h"
#include "backend/client/py_support.h"
#include "backend/client/server_paths.h"
#include "compile_client/rpc_client.h"
#include "proto/options_generated.h"

namespace hpu::client {
namespace {

namespace py = pybind11;
using Clock = std::chrono::steady_clock;

std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

double MillisecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

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

// Read-only bytes for Python without a copy; shares the blob.
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

struct LoadedProgram {
  store::Entry entry;
  Origin origin = Origin::kCompiled;
  double fetch_ms = 0;

  BlobView program() const { return BlobView(entry.blobs[0]); }
  std::vector<BlobView> recipes() const {
    std::vector<BlobView> views;
    for (size_t i = 1; i < entry.blobs.size(); ++i) views.emplace_back(entry.blobs[i]);
    return views;
  }
};

// Methods are called with the GIL held.
class CompileClient {
 public:
  CompileClient(const std::string& socket_path, const std::string& public_key_path,
                double call_timeout_s)
      : rpc_(OptionsOf(socket_path, public_key_path, call_timeout_s)) {}

  py::dict Hello() {
    PythonCall call;
    const ServerInfo info =
        call.Run<ServerInfo>([&] { return rpc_.Hello([&] { return call.CheckSignals(); }); });
    py::dict dict;
    dict["build_id"] = info.build_id;
    dict["protocol_version"] = info.protocol_version;
    dict["pid"] = info.pid;
    dict["upstream"] = info.upstream;
    dict["config_file"] = info.config_file;
    return dict;
  }

  template <typename Key>
  std::optional<LoadedProgram> Get(const Key& key) {
    const auto begin = Clock::now();
    PythonCall call;
    using Found = std::optional<store::Entry>;
    Found found = call.Run<Found>([&]() -> absl::StatusOr<Found> {
      absl::StatusOr<Fetched> fetched = rpc_.Get(key, [&] { return call.CheckSignals(); });
      if (absl::IsNotFound(fetched.status())) return Found();
      RETURN_IF_ERROR(fetched.status());
      return Found(std::move(fetched->entry));
    });
    if (!found.has_value()) return std::nullopt;
    return LoadedProgram{*std::move(found), Origin::kStore, MillisecondsSince(begin)};
  }

  LoadedProgram Compile(const CompileCall& compile, const py::object& progress, double timeout_s) {
    const auto begin = Clock::now();
    PythonCall call;
    const ProgressSink sink = [&](const Progress& now) -> absl::Status {
      if (progress.is_none()) return absl::OkStatus();
      return call.Callback([&] { progress(now.stage, now.done, now.total); });
    };
    Compiled compiled = call.Run<Compiled>([&] {
      return rpc_.Compile(compile, Milliseconds(timeout_s), sink,
                          [&] { return call.CheckSignals(); });
    });
    return LoadedProgram{std::move(compiled.entry), compiled.origin, MillisecondsSince(begin)};
  }

  std::map<std::string, uint64_t> Stats() {
    PythonCall call;
    return call.Run<std::map<std::string, uint64_t>>(
        [&] { return rpc_.Stats([&] { return call.CheckSignals(); }); });
  }

  py::list List(uint32_t limit) {
    PythonCall call;
    py::list list;
    for (const Listed& listed : call.Run<std::vector<Listed>>(
             [&] { return rpc_.List(limit, [&] { return call.CheckSignals(); }); })) {
      py::list aliases;
      for (const store::Alias& alias : listed.aliases) aliases.append(AliasDict(alias));
      py::dict dict = ManifestDict(listed.manifest);
      dict["aliases"] = aliases;
      dict["hits"] = listed.hits;
      list.append(dict);
    }
    return list;
  }

  void Shutdown(const std::string& reason) {
    PythonCall call;
    call.Run<bool>([&]() -> absl::StatusOr<bool> {
      RETURN_IF_ERROR(rpc_.Shutdown(reason, [&] { return call.CheckSignals(); }));
      return true;
    });
  }

 private:
  static RpcClient::Options OptionsOf(const std::string& socket_path,
                                      const std::string& keyring_path, double call_timeout_s) {
    RpcClient::Options options = LocalServer(socket_path, keyring_path);
    options.call_timeout = Milliseconds(call_timeout_s);
    return options;
  }

  RpcClient rpc_;
};

std::string EnsureServerFromPython(const std::string& server_binary, const std::string& cache_dir,
                                   int log_level, const std::string& upstream,
                                   const std::string& config_file, double start_timeout_s,
                                   int idle_timeout_s, double compile_timeout_s) {
  const DaemonOptions options{server_binary,
                              cache_dir,
                              log_level,
                              upstream,
                              config_file,
                              Milliseconds(start_timeout_s),
                              std::chrono::seconds(idle_timeout_s),
                              compile_timeout_s};
  PythonCall call;
  return call.Run<std::string>(
      [&] { return EnsureServer(options, [&] { return call.CheckSignals(); }); });
}

// (key, factors, label)
using FrontEndTuple =
    std::tuple<py::bytes, std::vector<std::pair<std::string, std::string>>, std::string>;

store::FrontEndKey ToFrontEndKey(const FrontEndTuple& tuple) {
  store::FrontEndKey front_end{ToDigest(std::get<0>(tuple)), {}, std::get<2>(tuple)};
  for (const auto& [name, value] : std::get<1>(tuple)) front_end.factors.push_back({name, value});
  return front_end;
}

// dict[str, str] in its order.
store::OptionList ToOptions(const py::dict& dict) {
  store::OptionList options;
  for (const auto& [name, value] : dict) {
    options.emplace_back(py::cast<std::string>(name), py::cast<std::string>(value));
  }
  return options;
}

void AddField(KeyBuilder& builder, const std::string& name, const py::object& value) {
  if (PyUnicode_Check(value.ptr())) {
    builder.AddText(name, py::cast<std::string>(value));
  } else if (PyLong_Check(value.ptr()) && !PyBool_Check(value.ptr())) {
    builder.AddNumber(name, py::cast<int64_t>(value));
  } else if (PyBytes_Check(value.ptr())) {
    const std::string_view bytes = py::cast<std::string_view>(value);
    builder.AddBytes(name, {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  } else {
    throw py::type_error("key field " + name + " must be str, int or bytes, not " +
                         Py_TYPE(value.ptr())->tp_name);
  }
}

}  // namespace

void BindKeyBuilder(py::module_& module) {
  py::class_<KeyBuilder>(module, "KeyBuilder",
                         "SHA-256 over named fields in order, and the fields as text.")
      .def(py::init<>())
      .def("field", &AddField, py::arg("name"), py::arg("value"))
      .def("factors", [](const KeyBuilder& builder) { return FactorList(builder.factors()); })
      .def("digest", [](const KeyBuilder& builder) {
        const Digest digest = builder.digest();
        return py::bytes(reinterpret_cast<const char*>(digest.data()), digest.size());
      });
}

void BindClient(py::module_& module) {
  py::class_<BlobView>(module, "BlobView", py::buffer_protocol(),
                       "Read-only bytes; memoryview() and bytes() work on it.")
      .def_buffer(&BlobView::Describe)
      .def("__len__", &BlobView::size)
      .def("__bytes__", &BlobView::ToBytes);

  py::class_<LoadedProgram>(module, "LoadedProgram", "A program with its recipes, verified.")
      .def_property_readonly("program", &LoadedProgram::program)
      .def_property_readonly("recipes", &LoadedProgram::recipes)
      .def_property_readonly("origin", [](const LoadedProgram& p) { return OriginName(p.origin); })
      .def_property_readonly("compile_ms",
                             [](const LoadedProgram& p) {
                               return static_cast<double>(p.entry.manifest.compile_micros) / 1000;
                             })
      .def_readonly("fetch_ms", &LoadedProgram::fetch_ms)
      .def_property_readonly("manifest",
                             [](const LoadedProgram& p) { return ManifestDict(p.entry.manifest); });

  py::class_<CompileClient>(module, "CompileClient", "A user's connection to a compile server.")
      .def(py::init([](const std::string& socket_path,
                       const std::optional<std::string>& store_public_key_path,
                       double call_timeout_s) {
             return std::make_unique<CompileClient>(socket_path, store_public_key_path.value_or(""),
                                                    call_timeout_s);
           }),
           py::arg("socket_path"), py::arg("store_public_key_path") = py::none(),
           py::arg("call_timeout_s") = 10.0)
      .def("hello", &CompileClient::Hello)
      .def(
          "get",
          [](CompileClient& client, const py::bytes& front_end_key) {
            return client.Get(ByFrontEndKey{ToDigest(front_end_key)});
          },
          py::arg("front_end_key"))
      .def(
          "get_content",
          [](CompileClient& client, const py::bytes& content_key) {
            return client.Get(ByContentKey{ToDigest(content_key)});
          },
          py::arg("content_key"))
      .def(
          "compile",
          [](CompileClient& client, const py::bytes& graph, const py::dict& options,
             const std::string& device_kind, const std::string& isa_level,
             const std::optional<FrontEndTuple>& front_end, const py::object& progress,
             double timeout_s, bool skip_cache_lookup) {
            CompileCall call{graph,     ToOptions(options), device_kind,
                             isa_level, skip_cache_lookup,  std::nullopt};
            if (front_end.has_value()) call.front_end = ToFrontEndKey(*front_end);
            return client.Compile(call, progress, timeout_s);
          },
          py::arg("graph"), py::arg("options"), py::arg("device_kind"), py::arg("isa_level"),
          py::arg("front_end") = py::none(), py::arg("progress") = py::none(),
          py::arg("timeout_s") = default_options::compile_timeout_s,
          py::arg("skip_cache_lookup") = false)
      .def("stats", &CompileClient::Stats)
      .def("list", &CompileClient::List, py::arg("limit") = 0)
      .def("shutdown", &CompileClient::Shutdown, py::arg("reason") = "");

  module.def(
      "server_paths",
      [](const std::string& cache_dir) {
        PythonCall call;
        using Paths = std::map<std::string, std::string>;
        return call.Run<Paths>([&]() -> absl::StatusOr<Paths> {
          ASSIGN_OR_RETURN(const ServerPaths paths, MakeServerPaths(cache_dir));
          return Paths{{"socket", paths.socket}, {"log", paths.log}, {"store", paths.store}};
        });
      },
      py::arg("cache_dir"), "Where ensure_server puts socket, log and store; starts nothing.");
  module.def(
      "compile_servers",
      [](const std::string& addresses) {
        PythonCall call;
        return call.Run<std::string>([&]() -> absl::StatusOr<std::string> {
          ASSIGN_OR_RETURN(const std::vector<Endpoint> endpoints, ParseEndpoints(addresses));
          return ToText(endpoints);
        });
      },
      py::arg("addresses"), "The addresses as they are understood, separated by commas.");
  module.def(
      "server_process",
      [](const std::string& socket_path) -> py::object {
        const auto process = RunningServer(socket_path);
        if (!process.has_value()) return py::none();
        return py::make_tuple(process->pid, process->stopping);
      },
      py::arg("socket_path"),
      "(pid, whether it is stopping) of the server whose socket this is, or was; None = none.");
  module.def("ensure_server", &EnsureServerFromPython, py::arg("server_binary"),
             py::arg("cache_dir"), py::arg("log_level") = 2, py::arg("upstream") = "",
             py::arg("config_file") = "", py::arg("start_timeout_s") = 20.0,
             py::arg("idle_timeout_s") = 900,
             py::arg("compile_timeout_s") = default_options::compile_timeout_s,
             "Starts the user's compile server if need be; the path of its socket.");
}

}  // namespace hpu::client
