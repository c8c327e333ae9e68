// The captured graph: calls of ops with PyTorch schemas in order, as a front end recorded them. It
// is what a compile server is asked to compile. The capturing side makes it (backend/torch, tests),
// and compiler_server/ir reads it. It is a container of our own because it is made beside libtorch
// and carried beside protobuf, which must not meet (ARCHITECTURE.md).
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
  // same from call to call. Values that are computed from such inputs alone may be kept.
  bool is_weight = false;
  // kTensor: a parameter or state that training changes between two calls. Nothing that is made
  // from such inputs is worth keeping.
  bool is_trained = false;
  std::string name;  // a label: not in the digest
};

struct CapturedConstant {
  TensorSpec spec;  // row-major, storage_offset is 0
  Bytes data;       // little endian elements
};

// The result lies in memory of its own, as opposed to that of another value.
inline constexpr uint32_t kOwnMemory = UINT32_MAX;

struct CapturedResult {
  // storage_offset counts from the first element of `memory_of`; it is 0 in own memory.
  TensorSpec spec;
  // The value in whose memory the result lies, which must be one with memory of its own. kOwnMemory
  // means new memory.
  uint32_t memory_of = kOwnMemory;
};

struct CapturedCall {
  uint32_t schema = 0;         // into CapturedGraph::schemas
  std::vector<Argument> args;  // one per argument of the schema; tensors by value number
  // Those of the operator. One of user code that writes to arguments, and returns none of them, has
  // the values of these arguments after the call as further results, and writes nothing.
  std::vector<CapturedResult> results;
  // Numbers of argument values whose memory the call writes, ascending.
  std::vector<uint32_t> writes;
  bool draws_random = false;  // advances the generator's state
  std::string source;         // "model.py:12 in forward"; a label: not in the digest
};

// The additional results of a graph that was captured for training: the gradients of some inputs,
// computed from those of its outputs. Numbers are places in `inputs` and `outputs`. A tensor is in
// at most one pair by its `tangent`, and in at most one by its `gradient`. Inputs that are tangents
// follow all other inputs, and outputs that are gradients follow all other outputs, each in the
// order of the pairs.
struct CapturedTangent {
  uint32_t output = 0;   // an output that the caller gets
  uint32_t tangent = 0;  // the input that is its gradient; it has the same dtype and sizes
};
struct CapturedGradient {
  uint32_t input = 0;     // an input that the caller gives
  uint32_t gradient = 0;  // the output that is its gradient; it has the same dtype and sizes
};

struct CapturedGraph {
  std::string name;  // a label: not in the digest
  std::vector<CapturedInput> inputs;
  std::vector<CapturedConstant> constants;  // in the order of their first use; each is used
  std::vector<OpSchema> schemas;            // in the order of their first use, each once
  std::vector<CapturedCall> calls;
  std::vector<Argument> outputs;  // tensor, none, int, float or bool
  // By output; kNone for all except tensors in the memory of inputs.
  std::vector<AliasForm> alias_forms;
  std::vector<CapturedTangent> tangents;  // in a training graph both lists have at least one entry
  std::vector<CapturedGradient> gradients;  // in any other graph both are empty

  const OpSchema& schema(const CapturedCall& call) const { return schemas[call.schema]; }
  size_t value_count() const;
};

// Limits of a valid graph. Labels longer than kMaxLabelBytes are cut by the builder.
inline constexpr size_t kMaxLabelBytes = 512;
inline constexpr size_t kMaxGraphValues = size_t{1} << 24;

// The container (docs/formats.md) consists of the head of base/container.h with kind "HPUGRAF", a
// part that the digest covers (everything but labels), a part with the labels, and the checksum.
// Equal graphs have equal bytes: every field is required, and lists without an order of their own
// are ordered by first use.
inline constexpr uint32_t kCapturedGraphVersion = 4;
Bytes EncodeGraph(const CapturedGraph& graph);
// Accepts valid graphs only. DATA_LOSS (foreign, damaged or hostile bytes) says what is wrong and
// where. UNIMPLEMENTED: another version.
absl::StatusOr<CapturedGraph> DecodeGraph(std::span<const uint8_t> bytes);
absl::Status ValidateGraph(const CapturedGraph& graph);

// Returns the SHA-256 of the part without labels, which is the part that code can depend on. It
// reads only the frame, so the bytes after it may be invalid; DecodeGraph then refuses them,
// whatever was found under the digest.
absl::StatusOr<Digest> GraphDigest(std::span<const uint8_t> bytes);

// Returns a readable listing: %5, %6 = aten.split.Tensor(self=%2, split_size=4, dim=0) :
// f32[4,3]{3,1} in %2
std::string PrintGraph(const CapturedGraph& graph);

}  // namespace hpu
