// LoadedProgram, and the descriptions of programs for Python.
#pragma once

#include <pybind11/pybind11.h>

#include <optional>
#include <vector>

#include "compile_client/rpc_client.h"

namespace hpu::client {

// A list of (name, value).
pybind11::list FactorList(const std::vector<store::KeyFactor>& factors);
pybind11::dict ManifestDict(const store::Manifest& manifest);
pybind11::dict AliasDict(const store::Alias& alias);

struct LoadedProgram {
  store::Entry entry;
  std::optional<store::AliasRecord> alias;  // set if it was asked for by its front-end key
  Origin origin = Origin::kCompiled;
  double fetch_ms = 0;
};

// Binds the classes BlobView and LoadedProgram.
void BindProgram(pybind11::module_& module);

}  // namespace hpu::client
