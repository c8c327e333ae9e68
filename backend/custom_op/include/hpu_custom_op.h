// The older way to register operators of the user's own, with a description of each input and
// output; hpu_custom_op_pt2.h is the newer one. An operator is registered with
// REGISTER_CUSTOM_OP_ATTRIBUTES before its first call, and its kernel for HPU calls
//
//   habana::custom_op::HabanaCustomOpDescriptor::getCustomOpDescriptor("custom_op::scale")
//       .execute(arguments);
#pragma once

#include "hpu_custom_op_common.h"

namespace habana {
namespace custom_op {

using output_shape = std::vector<int64_t>;
using user_param = std::shared_ptr<void>;

// The rules of both functions are those of OutputMetaFn and FillParamsFn (hpu_custom_op_pt2.h).
using compute_output_shape_function = std::function<output_shape(const at::Stack& stack)>;
using allocate_user_params_func = std::function<user_param(const at::Stack& stack, size_t& size)>;

struct NodeDesc {
  std::string tpc_guid;
  std::string schema_name;  // "custom_op::scale"
  allocate_user_params_func user_param_func = nullptr;
};

// The kernel's inputs are the arguments that are TENSOR. Numbers reach it through the parameters
// alone, whichever of the other two they are declared to be.
enum class input_type { TENSOR, SCALAR, USER_PARAMS };

struct InputDesc {
  input_type type;
  unsigned index;  // in the arguments; of no other input
};

struct OutputDesc {
  unsigned index;  // in the kernel's outputs; of no other output
  c10::ScalarType dtype = c10::ScalarType::Float;
  // Null: the sizes are those of argument 0.
  compute_output_shape_function compute_output_shape_func = nullptr;
};

class HPU_CUSTOM_OP_API HabanaCustomOpDescriptor {
 public:
  HabanaCustomOpDescriptor() = default;
  HabanaCustomOpDescriptor(NodeDesc node_desc, const std::vector<InputDesc>& inputs,
                           const std::vector<OutputDesc>& outputs);

  // Returns the outputs in the order in which they were described. Throws c10::Error as execute()
  // of UserCustomOpDescriptor does, and for descriptions that do not fit the arguments.
  std::vector<at::Tensor> execute(const std::vector<c10::IValue>& inputs);

  // Throws c10::Error for an operator that is not registered.
  static const HabanaCustomOpDescriptor getCustomOpDescriptor(std::string op);

  const std::string& getSchemaName() const { return node_desc_.schema_name; }
  const std::string& getGuid() const { return node_desc_.tpc_guid; }
  unsigned getInputsSize() const { return static_cast<unsigned>(inputs_.size()); }
  unsigned getOutputsSize() const { return static_cast<unsigned>(outputs_.size()); }
  const std::vector<InputDesc>& getInputs() const { return inputs_; }
  const std::vector<OutputDesc>& getOutputs() const { return outputs_; }
  bool hasUserParamsFunc() const { return node_desc_.user_param_func != nullptr; }
  const allocate_user_params_func& getUserParamsAllocFunc() const {
    return node_desc_.user_param_func;
  }
  bool hasOutputShapeFunc(unsigned index) const {
    return outputs_.at(index).compute_output_shape_func != nullptr;
  }
  const compute_output_shape_function& getOutputShapeFunc(unsigned index) const {
    return outputs_.at(index).compute_output_shape_func;
  }

 private:
  NodeDesc node_desc_;
  std::vector<InputDesc> inputs_;
  std::vector<OutputDesc> outputs_;
};

// Throws c10::Error for a name that is registered with another GUID. Thread-safe.
HPU_CUSTOM_OP_API void registerKernel(HabanaCustomOpDescriptor& new_desc);

#define REGISTER_CUSTOM_OP_ATTRIBUTES(schema_name, guid, inputs_desc, outputs_desc, param_func) \
  {                                                                                             \
    habana::custom_op::NodeDesc node_desc{guid, schema_name, param_func};                       \
    habana::custom_op::HabanaCustomOpDescriptor op_desc{node_desc, inputs_desc, outputs_desc};  \
    habana::custom_op::registerKernel(op_desc);                                                 \
  }

}  // namespace custom_op
}  // namespace habana
