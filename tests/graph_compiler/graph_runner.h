// Builds a GraphDesc in a few lines, compiles it and runs the recipe in this process.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "graph_compiler/codegen/run_image.h"
#include "graph_compiler/compiler.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::graph_compiler {

using Dims = std::vector<uint64_t>;  // FCD-first, as in the API

inline size_t Elements(const Dims& sizes) {
  size_t count = 1;
  for (const uint64_t size : sizes) count *= size;
  return count;
}

inline size_t BytesPerElement(synDataType type) {
  switch (static_cast<uint32_t>(type)) {
    case syn_type_int64:
      return 8;
    case syn_type_float:
    case syn_type_int32:
      return 4;
    case syn_type_bf16:
    case syn_type_fp16:
    case syn_type_int16:
      return 2;
    default:
      return 1;
  }
}

class GraphBuilder {
 public:
  GraphDesc graph;

  uint32_t Persistent(const Dims& sizes, synDataType type = syn_type_float) {
    const uint32_t index = Add(sizes, type, TensorPlacement::kPersistent);
    graph.tensors[index].section = index;
    return index;
  }
  uint32_t Temporary(const Dims& sizes, synDataType type = syn_type_float) {
    return Add(sizes, type, TensorPlacement::kWorkspace);
  }
  // The sizes are left to inference.
  uint32_t Inferred(synDataType type = syn_type_float) {
    const uint32_t index = Add({}, type, TensorPlacement::kWorkspace);
    graph.tensors[index].sizes_known = false;
    return index;
  }
  template <typename T>
  uint32_t Constant(const Dims& sizes, synDataType type, const std::vector<T>& data) {
    const uint32_t index = Add(sizes, type, TensorPlacement::kConstant);
    const auto* bytes = reinterpret_cast<const uint8_t*>(data.data());
    graph.tensors[index].host_data.assign(bytes, bytes + data.size() * sizeof(T));
    return index;
  }
  void Node(const std::string& guid, std::vector<uint32_t> inputs, std::vector<uint32_t> outputs) {
    NodeDesc node;
    node.guid = guid;
    node.name = guid + std::to_string(graph.nodes.size());
    node.inputs = std::move(inputs);
    node.outputs = std::move(outputs);
    graph.nodes.push_back(std::move(node));
  }
  template <typename T>
  void Node(const std::string& guid, std::vector<uint32_t> inputs, std::vector<uint32_t> outputs,
            const T& params) {
    Node(guid, std::move(inputs), std::move(outputs));
    const auto* bytes = reinterpret_cast<const uint8_t*>(&params);
    graph.nodes.back().params.assign(bytes, bytes + sizeof(T));
  }

 private:
  uint32_t Add(const Dims& sizes, synDataType type, TensorPlacement placement) {
    TensorDesc tensor;
    tensor.name = "t" + std::to_string(graph.tensors.size());
    tensor.placement = placement;
    tensor.dtype = type;
    tensor.sizes = sizes;
    tensor.sizes_known = true;
    graph.tensors.push_back(std::move(tensor));
    return static_cast<uint32_t>(graph.tensors.size() - 1);
  }
};

// The memory of a launch: one buffer per section, filled by tensor.
class GraphRun {
 public:
  explicit GraphRun(const GraphDesc& graph) : graph_(graph) {
    std::map<uint32_t, uint64_t> sizes;
    for (const TensorDesc& tensor : graph.tensors) {
      if (tensor.placement != TensorPlacement::kPersistent) continue;
      const uint64_t end =
          tensor.section_offset + Elements(tensor.sizes) * BytesPerElement(tensor.dtype);
      sizes[tensor.section] = std::max(sizes[tensor.section], end);
    }
    for (const auto& [section, bytes] : sizes) sections_[section].assign(bytes + 64, 0xcd);
  }

  template <typename T>
  void Set(uint32_t tensor, const std::vector<T>& values) {
    std::memcpy(Address(tensor), values.data(), values.size() * sizeof(T));
  }
  template <typename T>
  std::vector<T> Get(uint32_t tensor) {
    std::vector<T> values(Elements(graph_.tensors[tensor].sizes));
    std::memcpy(values.data(), Address(tensor), values.size() * sizeof(T));
    return values;
  }

  // Compiles for `isa` and runs, with tasks cut into pieces of `piece` (0 = all at once).
  absl::Status Run(IsaLevel isa, uint64_t piece = 0) {
    RETURN_IF_ERROR(Compile(isa));
    Execute(piece);
    return absl::OkStatus();
  }
  absl::Status Compile(IsaLevel isa) {
    CompileOptions options;
    options.isa = isa;
    options.verify = true;
    if (const char* dir = std::getenv("GRAPH_TEST_DUMP")) options.dump_dir = dir;
    auto compiled = CompileGraph(graph_, options);
    EXPECT_EQ(CheckGraph(graph_), compiled.status());
    if (!compiled.ok()) return compiled.status();
    recipe = std::move(*compiled);
    return absl::OkStatus();
  }

  // Runs the compiled recipe on the values that Set gave.
  void Execute(uint64_t piece) {
    if (recipe.code.empty()) return;
    std::vector<uint8_t*> tensors;
    for (uint32_t i = 0; i < graph_.tensors.size(); ++i) {
      if (graph_.tensors[i].placement == TensorPlacement::kPersistent)
        tensors.push_back(Address(i));
    }
    std::vector<uint8_t> workspace(recipe.workspace_bytes + 128, 0xee);
    std::vector<uint8_t> constants(recipe.constants.begin(), recipe.constants.end());
    constants.resize(constants.size() + 128);
    const auto align = [](std::vector<uint8_t>& bytes) {
      return reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(bytes.data()) + 63) / 64 * 64);
    };
    uint8_t* constant_base = align(constants);
    std::copy(recipe.constants.begin(), recipe.constants.end(), constant_base);
    const MappedImage image(recipe.code);
    std::vector<std::vector<uint8_t>> packed(recipe.packed.size());
    std::vector<uint8_t> kept(recipe.kept_bytes + 64, 0xcd);
    const auto address = [&](const OperandRef& ref) -> void* {
      switch (ref.kind) {
        case OperandRef::Kind::kPersistent:
          return tensors[ref.index] + ref.offset;
        case OperandRef::Kind::kWorkspace:
          return align(workspace) + ref.offset;
        case OperandRef::Kind::kConstant:
          return constant_base + ref.offset;
        case OperandRef::Kind::kPacked:
          return align(packed[ref.index]) + ref.offset;
        case OperandRef::Kind::kKept:
          return align(kept) + ref.offset;
        case OperandRef::Kind::kNull:
          return nullptr;
      }
      return nullptr;
    };
    const auto run = [&](const KernelLaunch& launch, const std::vector<void*>& operands) {
      const uint64_t step = piece == 0 ? std::max<uint64_t>(launch.tasks, 1) : piece;
      for (uint64_t begin = 0; begin < launch.tasks; begin += step) {
        image.Run(launch.entry, operands, static_cast<int64_t>(begin),
                  static_cast<int64_t>(std::min(begin + step, launch.tasks)), launch.scratch_bytes);
      }
    };
    for (size_t i = 0; i < packed.size(); ++i) {
      packed[i].resize(recipe.packed[i].packed_bytes + 64);
      run(recipe.packed[i].kernel, {address(recipe.packed[i].source), align(packed[i])});
    }
    for (const KernelLaunch& launch : recipe.kernels) {
      std::vector<void*> operands;
      for (const OperandRef& ref : launch.operands) operands.push_back(address(ref));
      run(launch, operands);
    }
  }

  Recipe recipe;

 private:
  uint8_t* Address(uint32_t tensor) {
    const TensorDesc& desc = graph_.tensors[tensor];
    return sections_[desc.section].data() + desc.section_offset;
  }

  const GraphDesc& graph_;
  std::map<uint32_t, std::vector<uint8_t>> sections_;
};

inline std::vector<IsaLevel> GraphIsaLevels() {
  std::vector<IsaLevel> levels = {IsaLevel::kV2};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    levels.push_back(IsaLevel::kV3);
  }
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    levels.push_back(IsaLevel::kV4);
  }
  return levels;
}

inline std::vector<float> RandomFloats(size_t count, uint32_t seed = 1, float low = -2,
                                       float high = 2) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> value(low, high);
  std::vector<float> values(count);
  for (float& v : values) v = value(random);
  return values;
}

inline void ExpectNear(const std::vector<float>& got, const std::vector<float>& wanted,
                       double tolerance, const std::string& what = "") {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(wanted[i]) && std::isnan(got[i])) continue;
    if (got[i] == wanted[i]) continue;
    ASSERT_NEAR(got[i], wanted[i], tolerance * (1 + std::abs(wanted[i])))
        << what << " element " << i;
  }
}

// The base class of tests that run at every ISA level of this host.
class LevelTest : public testing::TestWithParam<IsaLevel> {
 protected:
  void RunOrFail(GraphRun& run, uint64_t piece = 0) {
    const absl::Status status = run.Run(GetParam(), piece);
    ASSERT_TRUE(status.ok()) << status;
  }
};

}  // namespace hpu::graph_compiler
