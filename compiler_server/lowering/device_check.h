// Decides whether recipes can hold a node: first by what the lowering knows, then by asking the
// device. Only the device's library knows its limits.
#pragma once

#include <map>

#include "base/bytes.h"
#include "base/status.h"
#include "compiler_server/ir/graph.h"
#include "synapse/loader.h"

namespace hpu::compiler {

// Belongs to one compilation. Nodes with equal op, attributes and types are asked for once. Not
// thread-safe.
class DeviceCheck {
 public:
  // `functions` must outlive the object.
  DeviceCheck(const SynapseFunctions& functions, synDeviceType device, bool deterministic)
      : functions_(functions), device_(device), deterministic_(deterministic) {}

  // Returns UNIMPLEMENTED, with node and reason, if no recipe can hold the node. A library that
  // cannot be asked (a real device has no synEmulatorGraphCheck) decides when it compiles.
  absl::Status Check(const ir::Node& node);

  // The number of times that the library was asked.
  size_t asked() const { return answers_.size(); }

 private:
  absl::Status Ask(const ir::Node& node) const;

  const SynapseFunctions& functions_;
  const synDeviceType device_;
  const bool deterministic_;
  std::map<Bytes, absl::Status> answers_;
};

}  // namespace hpu::compiler
