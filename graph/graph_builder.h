// Builds captured graphs call by call. Values are numbered in the order of the calls of this class.
// Finish brings them into the order of the container (captured_graph.h), so that equal graphs
// become equal bytes however they were recorded. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/captured_graph.h"

namespace hpu {

class GraphBuilder {
 public:
  // Labels are cut to kMaxLabelBytes.
  explicit GraphBuilder(std::string name);

  // Each function returns the number of the (first) value that it adds. Storage offsets are
  // PyTorch's, from the start of the storage. Wrong arguments are kept, and Finish finds them.
  uint32_t AddInput(CapturedInput input);
  uint32_t AddConstant(CapturedConstant constant);
  // `call.schema` is set from `schema`. A result may lie in the memory of any earlier value.
  uint32_t AddCall(const OpSchema& schema, CapturedCall call);
  // `forms` is by output. For outputs that lie in an input's memory, kNone (and a missing entry)
  // means the input itself, or a view in the caller's grad mode. For all others it has no meaning.
  void SetOutputs(std::vector<Argument> outputs, std::vector<AliasForm> forms = {});
  // Makes this a training graph (captured_graph.h describes the order of inputs and outputs).
  void SetDerivative(std::vector<CapturedTangent> tangents,
                     std::vector<CapturedGradient> gradients);

  uint32_t value_count() const { return next_value_; }
  size_t call_count() const { return graph_.calls.size(); }

  // Returns the graph of everything that was added; constants without use are left out. If the
  // graph is not valid, INVALID_ARGUMENT says what is wrong and where.
  absl::StatusOr<CapturedGraph> Finish() const;

 private:
  struct Defined {
    enum class Kind : uint8_t { kInput, kConstant, kResult };
    Kind kind = Kind::kInput;
    uint32_t index = 0;   // among the values of its kind
    int64_t offset = 0;   // of its first element in PyTorch's storage
    uint32_t memory = 0;  // the value with its own memory in which this one lies; may be itself
  };

  AliasForm FormOf(const Argument& output, AliasForm given) const;
  uint32_t Define(Defined::Kind kind, uint32_t index, int64_t offset, uint32_t memory_of);

  CapturedGraph graph_;  // with the numbers of this class
  std::vector<Defined> values_;
  std::map<std::string, uint32_t> schema_of_;  // by target
  uint32_t next_value_ = 0;
  uint32_t results_ = 0;
};

}  // namespace hpu
