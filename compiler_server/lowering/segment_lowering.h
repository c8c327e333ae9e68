// Builds one recipe segment as a Synapse node graph, with the memory that its launch table binds.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler_server/ir/graph.h"
#include "compiler_server/lowering/lower.h"
#include "compiler_server/lowering/memory_plan.h"
#include "compiler_server/lowering/segment.h"
#include "compiler_server/lowering/syn_graph.h"
#include "program/program.h"

namespace hpu::compiler {

class SegmentLowering {
 public:
  // All arguments must outlive the object.
  SegmentLowering(const ir::Graph& graph, const SegmentPlan& plan, const Segment& segment,
                  MemoryPlan& memory, SynGraph& syn)
      : graph_(graph), plan_(plan), segment_(segment), memory_(memory), syn_(syn) {}

  // Emits the segment. Errors stick to the SynGraph and are returned.
  absl::Status Run();
  // The entries of the launch table, and the memory that each is bound to.
  const std::vector<Binding>& bindings() const { return bindings_; }

 private:
  using MemoryKey = std::pair<Placement, uint32_t>;
  static MemoryKey KeyOf(const Memory& memory) { return {memory.placement, memory.index}; }

  void WriteStorage(uint32_t storage);
  void ApplyMutations(const std::vector<const ir::Mutation*>& mutations);
  Tensor Get(ir::Value* value);
  void Emit(const ir::Node& node);
  bool EmitStridedRead(const ir::Node& node);
  Tensor ResultTensor(ir::Value* value);
  Tensor Load(const Memory& memory);
  std::optional<Memory> OutsideMemory(ir::Value& value);
  enum class Access { kRead, kWrite };
  Tensor Bind(const Memory& memory, DType dtype, const ir::Dims& sizes, int64_t offset,
              Access access, std::string_view role = "");
  void StoreTo(const Tensor& value, const Memory& memory, std::string_view role);
  synSectionHandle SectionOf(const MemoryKey& key);
  std::optional<Memory> DirectTarget(const ir::Value& value);

  const ir::Graph& graph_;
  const SegmentPlan& plan_;
  const Segment& segment_;
  MemoryPlan& memory_;
  SynGraph& syn_;

  std::map<uint32_t, Tensor> tensors_;             // by value id
  std::map<uint32_t, MemoryKey> stored_directly_;  // value id -> memory that its node writes
  std::map<MemoryKey, synSectionHandle> sections_;
  std::map<MemoryKey, size_t> ordinals_;  // the order in which memory was first bound
  std::map<std::string, int> names_;      // the number of bindings with this stem as their name
  std::map<uint32_t, Memory> storages_;   // value id -> row-major storage that is written here
  std::vector<Binding> bindings_;
};

}  // namespace hpu::compiler
