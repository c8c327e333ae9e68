#include "compiler_server/ir/collectives.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace hpu::ir {
namespace {

// The second one has shard_dim_alltoall, by which DTensors change the dimension that is sharded.
constexpr std::string_view kNamespaces[] = {"_c10d_functional.", "_dtensor."};

// PyTorch 2.15 has the second one, which waits for several tensors.
constexpr std::string_view kWaits[] = {"_c10d_functional.wait_tensor.default",
                                       "_c10d_functional.wait_tensors.default"};

}  // namespace

bool IsCollective(const Node& node) {
  if (node.op != OpKind::kAten || IsCollectiveWait(node)) return false;
  return std::any_of(std::begin(kNamespaces), std::end(kNamespaces),
                     [&](std::string_view name) { return node.aten->target.starts_with(name); });
}

bool IsCollectiveWait(const Node& node) {
  return node.op == OpKind::kAten &&
         std::find(std::begin(kWaits), std::end(kWaits), node.aten->target) != std::end(kWaits);
}

}  // namespace hpu::ir
