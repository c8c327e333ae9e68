// Lowers calls of kernels by their names.
#include "compiler_server/lowering/dims.h"
#include "compiler_server/lowering/lower.h"

namespace hpu::compiler {
namespace {

using ir::AttrKey;

// The verifier has checked the digits.
Bytes FromHexadecimal(std::string_view digits) {
  const auto value = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  Bytes bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(value(digits[i]) << 4 | value(digits[i + 1])));
  }
  return bytes;
}

void LowerCustom(const NodeLowering& at) {
  const std::string& guid = at.node.Text(AttrKey::kGuid);
  const Bytes params = FromHexadecimal(at.node.Text(AttrKey::kParams));
  const int64_t version = at.node.Int(AttrKey::kVersion);
  if (version != 0) at.graph.DeclareKernel(guid, static_cast<uint32_t>(version));
  at.graph.Node(guid, at.in, at.out, Params(std::span<const uint8_t>(params)));
}

const char* RefusesCustom(const ir::Node& node) {
  for (const auto* values : {&node.operands, &node.results}) {
    for (const ir::Value* value : *values) {
      if (!ir::DeviceHolds(value->type.dtype)) return "the device has no such type";
      if (value->type.rank() > kMaxKernelRank) return "more than 5 dimensions";
      if (value->type.elements() == 0) return "an operand or result without elements";
    }
  }
  return nullptr;
}

constexpr LoweringRule kCustomRules[] = {
    {ir::OpKind::kCustomKernel, LowerCustom, LoweredTypes::kMoved, RefusesCustom},
};

}  // namespace

std::span<const LoweringRule> CustomRules() { return kCustomRules; }

}  // namespace hpu::compiler
