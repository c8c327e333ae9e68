// Whether recipes can hold a node: what the lowering knows, then what the device answers. The
// limits of a device are known to its library alone.
#pragma once

#include <map>

#include "base/bytes.h"
#include "base/status.h"
#include "compiler_server/ir/graph.h"
#include "synapse/loader.h"

namespace hpu::compiler {

// For one compilation: nodes of equal op, attributes and types are asked for once. Not thread-safe.
class DeviceCheck {
 public:
  // `functions` must outlive the object.
  DeviceCheck(const SynapseFunctions& functions, synDeviceType device, bool deterministic)
      : functions_(functions), device_(device), deterministic_(deterministic) {}

  // UNIMPLEMENTED, with node and reason, if no recipe can hold the node. A library that cannot be
  // asked (synEmulatorGraphCheck is absent: a real device) decides when it compiles.
  absl::Status Check(const ir::Node& node);

  // How often the library was asked.
  size_t asked() const { return answers_.size(); }

 private:
  absl::Status Ask(const ir::Node& node) const;

  const SynapseFunctions& functions_;
  const synDeviceType device_;
  const bool deterministic_;
  std::map<Bytes, absl::Status> answers_;
};

}  // namespace hpu::compiler
