#include "backend/client/py_records.h"

#include <pybind11/stl.h>

#include "backend/client/py_program.h"
#include "backend/client/py_support.h"
#include "recipe_store/signing/keyring.h"

namespace hpu::client {
namespace {

namespace py = pybind11;

store::RecordKind ToKind(const std::string& kind) {
  if (kind == "manifest") return store::RecordKind::kManifest;
  if (kind == "alias") return store::RecordKind::kAlias;
  throw py::value_error("a record is a 'manifest' or an 'alias', not '" + kind + "'");
}

}  // namespace

Bytes ToBytes(const py::bytes& bytes) {
  const std::string_view view = bytes;
  return Bytes(view.begin(), view.end());
}

store::SignedRecord ToRecord(const RecordTuple& tuple) {
  return {ToBytes(std::get<0>(tuple)), ToBytes(std::get<1>(tuple)), ToBytes(std::get<2>(tuple))};
}

RecordTuple ToTuple(const store::SignedRecord& record) {
  const auto bytes = [](const Bytes& from) {
    return py::bytes(reinterpret_cast<const char*>(from.data()), from.size());
  };
  return {bytes(record.record), bytes(record.signature), bytes(record.public_key)};
}

void BindRecords(py::module_& module) {
  module.def(
      "sign_record",
      [](const std::string& kind, const py::bytes& record, const std::string& folder) {
        PythonCall call;
        using Signed = store::SignedRecord;
        return ToTuple(call.Run<Signed>([&]() -> absl::StatusOr<Signed> {
          ASSIGN_OR_RETURN(const store::SigningKey key, store::SigningKey::LoadOrCreate(folder));
          return key.Sign(ToKind(kind), ToBytes(record));
        }));
      },
      py::arg("kind"), py::arg("record"), py::arg("folder"));
  module.def(
      "check_record",
      [](const std::string& kind, const RecordTuple& record) {
        const store::SignedRecord signed_record = ToRecord(record);
        store::PublicKey key{};
        if (signed_record.public_key.size() != key.size()) return false;
        std::copy_n(signed_record.public_key.begin(), key.size(), key.begin());
        return store::VerifySignature(ToKind(kind), signed_record, key).ok();
      },
      py::arg("kind"), py::arg("record"));
  module.def(
      "describe_manifest",
      [](const py::bytes& record) {
        PythonCall call;
        return ManifestDict(
            call.Run<store::Manifest>([&] { return store::DecodeManifest(ToBytes(record)); }));
      },
      py::arg("record"));
  module.def(
      "make_key",
      [](const std::string& folder) {
        PythonCall call;
        using Hex = std::string;
        return call.Run<Hex>([&]() -> absl::StatusOr<Hex> {
          ASSIGN_OR_RETURN(const store::SigningKey key, store::SigningKey::LoadOrCreate(folder));
          return ToHex(key.public_key());
        });
      },
      py::arg("folder"));
  module.def(
      "read_keyring",
      [](const std::string& path) {
        PythonCall call;
        using List = std::vector<std::string>;
        return call.Run<List>([&]() -> absl::StatusOr<List> {
          ASSIGN_OR_RETURN(const store::Keyring keyring, store::ReadKeyring(path));
          List keys;
          for (const store::PublicKey& key : keyring.keys()) keys.push_back(ToHex(key));
          return keys;
        });
      },
      py::arg("path"));
}

}  // namespace hpu::client
