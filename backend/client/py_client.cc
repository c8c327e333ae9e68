#include "backend/client/py_client.h"

#include <pybind11/stl.h>

#include <chrono>
#include <map>
#include <utility>

#include "backend/client/daemon.h"
#include "backend/client/file_lock.h"
#include "backend/client/key_builder.h"
#include "backend/client/py_program.h"
#include "backend/client/py_records.h"
#include "backend/client/py_support.h"
#include "backend/client/server_paths.h"
#include "compile_client/program_list.h"
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

py::dict HelloDict(const ServerInfo& info) {
  py::dict dict;
  dict["build_id"] = info.build_id;
  dict["protocol_version"] = info.protocol_version;
  dict["pid"] = info.pid;
  dict["upstream"] = info.upstream;
  dict["config_file"] = info.config_file;
  dict["memory_only"] = info.memory_only;
  return dict;
}

// The items of the iteration over a list.
py::dict NextProgram(ProgramList& list) {
  PythonCall call;
  const auto next = call.Run<std::optional<Listed>>(
      [&] { return list.Next([&] { return call.CheckSignals(); }); });
  if (!next.has_value()) throw py::stop_iteration();
  py::list aliases;
  for (const store::Alias& alias : next->aliases) aliases.append(AliasDict(alias));
  py::dict dict = ManifestDict(next->manifest);
  dict["aliases"] = aliases;
  dict["hits"] = next->hits;
  dict["pinned"] = next->pinned;
  dict["upstream"] = next->upstream;
  return dict;
}

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
    return HelloDict(info);
  }

  template <typename Key>
  std::optional<LoadedProgram> Get(const Key& key) {
    const auto begin = Clock::now();
    PythonCall call;
    using Found = std::optional<Fetched>;
    Found found = call.Run<Found>([&]() -> absl::StatusOr<Found> {
      absl::StatusOr<Fetched> fetched = rpc_.Get(key, [&] { return call.CheckSignals(); });
      if (absl::IsNotFound(fetched.status())) return Found();
      RETURN_IF_ERROR(fetched.status());
      return Found(*std::move(fetched));
    });
    if (!found.has_value()) return std::nullopt;
    return LoadedProgram{std::move(found->entry), std::move(found->alias), Origin::kStore,
                         MillisecondsSince(begin)};
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
    return LoadedProgram{std::move(compiled.entry), std::nullopt, compiled.origin,
                         MillisecondsSince(begin)};
  }

  std::map<std::string, uint64_t> Stats() {
    PythonCall call;
    return call.Run<std::map<std::string, uint64_t>>(
        [&] { return rpc_.Stats([&] { return call.CheckSignals(); }); });
  }

  ProgramList List(uint32_t limit, bool upstream) { return ProgramList(&rpc_, limit, upstream); }

  void Pin(const Digest& content_key, bool pinned) {
    PythonCall call;
    call.Run<bool>([&]() -> absl::StatusOr<bool> {
      RETURN_IF_ERROR(rpc_.Pin(content_key, pinned, [&] { return call.CheckSignals(); }));
      return true;
    });
  }

  py::dict CollectGarbage(uint64_t max_bytes, uint64_t unused_seconds, double timeout_s) {
    PythonCall call;
    const Garbage garbage = call.Run<Garbage>([&] {
      return rpc_.CollectGarbage(max_bytes,
                                 std::chrono::seconds(static_cast<int64_t>(unused_seconds)),
                                 Milliseconds(timeout_s), [&] { return call.CheckSignals(); });
    });
    py::dict dict;
    dict["removed"] = garbage.removed;
    dict["bytes_before"] = garbage.bytes_before;
    dict["bytes_after"] = garbage.bytes_after;
    return dict;
  }

  void Verify(const py::object& each, double timeout_s) {
    PythonCall call;
    const VerifySink sink = [&](const VerifiedProgram& program) -> absl::Status {
      return call.Callback(
          [&] { each(program.done, program.total, ToHex(program.content_key), program.problem); });
    };
    call.Run<bool>([&]() -> absl::StatusOr<bool> {
      RETURN_IF_ERROR(
          rpc_.Verify(Milliseconds(timeout_s), sink, [&] { return call.CheckSignals(); }));
      return true;
    });
  }

  uint64_t Import(const Exported& program, double timeout_s) {
    PythonCall call;
    return call.Run<uint64_t>([&] {
      return rpc_.Import(program, Milliseconds(timeout_s), [&] { return call.CheckSignals(); });
    });
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

py::dict AskServer(const std::string& address, const std::string& ca_file,
                   const std::string& certificate_file, const std::string& key_file,
                   const std::string& token_file, double timeout_s) {
  PythonCall call;
  return HelloDict(call.Run<ServerInfo>([&]() -> absl::StatusOr<ServerInfo> {
    RpcClient::Options options;
    ASSIGN_OR_RETURN(options.servers.endpoints, ParseEndpoints(address));
    options.servers.access = {.ca_file = ca_file,
                              .certificate_file = certificate_file,
                              .key_file = key_file,
                              .token_file = token_file};
    options.call_timeout = Milliseconds(timeout_s);
    RpcClient client(std::move(options));
    return client.Hello([&] { return call.CheckSignals(); });
  }));
}

// (key, factors, label)
using FrontEndTuple =
    std::tuple<py::bytes, std::vector<std::pair<std::string, std::string>>, std::string>;

store::FrontEndKey ToFrontEndKey(const FrontEndTuple& tuple) {
  store::FrontEndKey front_end{ToDigest(std::get<0>(tuple)), {}, std::get<2>(tuple)};
  for (const auto& [name, value] : std::get<1>(tuple)) front_end.factors.push_back({name, value});
  return front_end;
}

// Converts a dict[str, str], in its order.
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

// Binds the calls that ask for programs.
void BindCalls(py::class_<CompileClient>& binding) {
  binding
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
             double timeout_s, bool skip_cache_lookup, bool warm_up, bool frozen) {
            CompileCall call{graph,
                             ToOptions(options),
                             device_kind,
                             isa_level,
                             skip_cache_lookup,
                             std::nullopt,
                             warm_up,
                             frozen};
            if (front_end.has_value()) call.front_end = ToFrontEndKey(*front_end);
            return client.Compile(call, progress, timeout_s);
          },
          py::arg("graph"), py::arg("options"), py::arg("device_kind"), py::arg("isa_level"),
          py::arg("front_end") = py::none(), py::arg("progress") = py::none(),
          py::arg("timeout_s") = default_options::compile_timeout_s,
          py::arg("skip_cache_lookup") = false, py::arg("warm_up") = false,
          py::arg("frozen") = false);
}

// Binds the calls that an operator makes.
void BindStore(py::class_<CompileClient>& binding) {
  binding
      .def("stats", &CompileClient::Stats)
      // The policy py::keep_alive crashes where an argument has a wrong type.
      .def(
          "list",
          [](const py::object& client, uint32_t limit, bool upstream) {
            py::object list = py::cast(client.cast<CompileClient&>().List(limit, upstream));
            py::detail::keep_alive_impl(list, client);
            return list;
          },
          py::arg("limit") = 0, py::arg("upstream") = false)
      .def(
          "pin",
          [](CompileClient& client, const py::bytes& content_key, bool pinned) {
            client.Pin(ToDigest(content_key), pinned);
          },
          py::arg("content_key"), py::arg("pinned"))
      .def("collect_garbage", &CompileClient::CollectGarbage, py::arg("max_bytes"),
           py::arg("unused_seconds") = 0, py::arg("timeout_s") = 600.0)
      .def("verify", &CompileClient::Verify, py::arg("each"), py::arg("timeout_s"))
      .def(
          "import_program",
          [](CompileClient& client, const RecordTuple& manifest,
             const std::vector<py::bytes>& blobs, const std::vector<RecordTuple>& aliases,
             double timeout_s) {
            Exported program{ToRecord(manifest), {}, {}};
            for (const py::bytes& blob : blobs) {
              program.blobs.push_back(std::make_shared<const Bytes>(ToBytes(blob)));
            }
            for (const RecordTuple& alias : aliases) program.aliases.push_back(ToRecord(alias));
            return client.Import(program, timeout_s);
          },
          py::arg("signed_manifest"), py::arg("blobs"), py::arg("signed_aliases"),
          py::arg("timeout_s"));
}

// Binds the functions that need no connection.
void BindDaemon(py::module_& module) {
  module.def("ask_server", &AskServer, py::arg("address"), py::arg("ca_file"),
             py::arg("certificate_file"), py::arg("key_file"), py::arg("token_file"),
             py::arg("timeout_s"));
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
  py::class_<ProgramList>(module, "ProgramList", "Stored programs, newest first, fetched by pages.")
      .def("__iter__", [](py::object self) { return self; })
      .def("__next__", &NextProgram);

  py::class_<CompileClient> client(module, "CompileClient",
                                   "A user's connection to a compile server.");
  client
      .def(py::init([](const std::string& socket_path,
                       const std::optional<std::string>& store_public_key_path,
                       double call_timeout_s) {
             return std::make_unique<CompileClient>(socket_path, store_public_key_path.value_or(""),
                                                    call_timeout_s);
           }),
           py::arg("socket_path"), py::arg("store_public_key_path") = py::none(),
           py::arg("call_timeout_s") = 10.0)
      .def("hello", &CompileClient::Hello)
      .def("shutdown", &CompileClient::Shutdown, py::arg("reason") = "");
  BindCalls(client);
  BindStore(client);
  BindDaemon(module);
}

}  // namespace hpu::client
