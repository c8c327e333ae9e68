// The captured graph: calls of ops with PyTorch schemas in order, as a front end recorded them.
// What a compile server is asked to compile; made by whoever captures (backend/torch, tests), read
// by compiler_server/ir. A container of our own, because it is made beside libtorch and carried
// beside protobuf, which must not meet (ARCHITECTURE.md).
//
// Values are numbered: inputs, then constants, then the results of the calls in order. Sizes,
// strides and offsets are in elements and in PyTorch dimension order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/status.h"
#include "graph/alias_form.h"
#include "graph/argument.h"
#include "graph/op_schema.h"
#include "graph/tensor_spec.h"

namespace hpu {

struct CapturedInput {
  enum class Kind : uint8_t {
    kTensor = 0,
    kScalar = 1,  // a Python number that was specialised into the graph; has no uses
  };
  Kind kind = Kind::kTensor;
  TensorSpec spec;      // kTensor; storage_offset is 0
  bool on_cpu = false;  // kTensor
  // kTensor: a parameter or buffer of a module (PyTorch's "static input"), which mostly stays the
  // same from call to call. What is computed from such inputs alone may be kept.
  bool is_weight = false;
  std::string name;  // a label: not in the digest
};

struct CapturedConstant {
  TensorSpec spec;  // row-major, storage_offset is 0
  Bytes data;       // little endian elements
};

// Memory of the result's own, as opposed to that of another value.
inline constexpr uint32_t kOwnMemory = UINT32_MAX;

struct CapturedResult {
  TensorSpec spec;  // storage_offset: from the first element of `memory_of`; 0 in memory of its own
  // The value whose memory the result lies in: one with memory of its own. kOwnMemory: new memory.
  uint32_t memory_of = kOwnMemory;
};

struct CapturedCall {
  uint32_t schema = 0;         // into CapturedGraph::schemas
  std::vector<Argument> args;  // one per argument of the schema; tensors by value number
  std::vector<CapturedResult> results;
  std::vector<uint32_t> writes;  // arguments' values whose memory the call writes, ascending
  bool draws_random = false;     // advances the generator's state
  std::string source;            // "model.py:12 in forward"; a label: not in the digest
};

// What a graph that was captured for training computes beside its results: the gradients of some
// inputs, from those of its outputs. Numbers are places in `inputs` and `outputs`; a tensor is in
// one pair at most by its `tangent`, and by its `gradient`. Inputs that are tangents stand behind
// all others, outputs that are gradients likewise, each in the order of the pairs.
struct CapturedTangent {
  uint32_t output = 0;   // that the caller gets
  uint32_t tangent = 0;  // the input that is its gradient; of its dtype and sizes
};
struct CapturedGradient {
  uint32_t input = 0;     // that the caller gives
  uint32_t gradient = 0;  // the output that is its gradient; of its dtype and sizes
};

struct CapturedGraph {
  std::string name;  // a label: not in the digest
  std::vector<CapturedInput> inputs;
  std::vector<CapturedConstant> constants;  // in the order of their first use, each used
  std::vector<OpSchema> schemas;            // in the order of their first use, each once
  std::vector<CapturedCall> calls;
  std::vector<Argument> outputs;          // tensor, none, int, float or bool
  std::vector<AliasForm> alias_forms;     // by output; kNone of all but tensors in inputs' memory
  std::vector<CapturedTangent> tangents;  // of a training graph: both lists have an entry at least
  std::vector<CapturedGradient> gradients;  // of any other: both are empty

  const OpSchema& schema(const CapturedCall& call) const { return schemas[call.schema]; }
  size_t value_count() const;
};

// Limits of a valid graph. Labels longer than kMaxLabelBytes are cut by the builder.
inline constexpr size_t kMaxLabelBytes = 512;
inline constexpr size_t kMaxGraphValues = size_t{1} << 24;

// Container (docs/formats.md): head of base/container.h, kind "HPUGRAF"; a part that the digest
// covers (all but labels), a part with the labels; checksum. Equal graphs have equal bytes: every
// field is required, and what has no order of its own is ordered by first use.
inline constexpr uint32_t kCapturedGraphVersion = 4;
Bytes EncodeGraph(const CapturedGraph& graph);
// Valid graphs only. DATA_LOSS, saying what and where: foreign, damaged or hostile bytes.
// UNIMPLEMENTED: another version.
absl::StatusOr<CapturedGraph> DecodeGraph(std::span<const uint8_t> bytes);
absl::Status ValidateGraph(const CapturedGraph& graph);

// SHA-256 of the part without labels: what code can depend on. Reads no more than the frame, so the
// bytes may be invalid behind it; they fail in DecodeGraph then, whatever was found under the
// digest.
absl::StatusOr<Digest> GraphDigest(std::span<const uint8_t> bytes);

// Readable listing:  %5, %6 = aten.split.Tensor(self=%2, split_size=4, dim=0) : f32[4,3]{3,1} in %2
std::string PrintGraph(const CapturedGraph& graph);

}  // namespace hpu
