// Signed records, and the keys that sign them, for Python.
#pragma once

#include <pybind11/pybind11.h>

#include <tuple>

#include "recipe_store/signing/signed_record.h"

namespace hpu::client {

// (record, signature, public key)
using RecordTuple = std::tuple<pybind11::bytes, pybind11::bytes, pybind11::bytes>;

Bytes ToBytes(const pybind11::bytes& bytes);
store::SignedRecord ToRecord(const RecordTuple& tuple);
RecordTuple ToTuple(const store::SignedRecord& record);

// Binds sign_record, check_record, describe_manifest, make_key and read_keyring.
void BindRecords(pybind11::module_& module);

}  // namespace hpu::client
