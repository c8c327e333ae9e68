// Extension module _client: keys and the compile protocol. It must not use torch (ARCHITECTURE.md).
#include <pybind11/pybind11.h>

#include "backend/client/py_client.h"
#include "backend/client/py_program.h"
#include "backend/client/py_records.h"
#include "backend/client/py_support.h"

PYBIND11_MODULE(_client, module) {
  module.doc() = "Client of the compile server: keys, programs.";
  hpu::client::BindErrors(module);
  hpu::client::BindKeyBuilder(module);
  hpu::client::BindProgram(module);
  hpu::client::BindRecords(module);
  hpu::client::BindClient(module);
}
