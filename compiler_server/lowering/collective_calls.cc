#include "compiler_server/lowering/collective_calls.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler_server/ir/types.h"
#include "compiler_server/ir/views.h"

namespace hpu::compiler {
namespace {

struct FunctionalCall {
  std::string_view target;
  CollectiveStep::Op op;
};
constexpr FunctionalCall kFunctionalCalls[] = {
    {"_c10d_functional.all_reduce.default", CollectiveStep::Op::kAllReduce},
    {"_c10d_functional.all_reduce_coalesced.default", CollectiveStep::Op::kAllReduce},
    {"_c10d_functional.all_gather_into_tensor.default", CollectiveStep::Op::kAllGather},
    {"_c10d_functional.all_gather_into_tensor_coalesced.default", CollectiveStep::Op::kAllGather},
    {"_c10d_functional.reduce_scatter_tensor.default", CollectiveStep::Op::kReduceScatter},
    {"_c10d_functional.reduce_scatter_tensor_coalesced.default",
     CollectiveStep::Op::kReduceScatter},
    {"_c10d_functional.broadcast.default", CollectiveStep::Op::kBroadcast},
    {"_c10d_functional.all_to_all_single.default", CollectiveStep::Op::kAllToAll},
};

constexpr std::pair<std::string_view, CollectiveStep::ReduceOp> kReductions[] = {
    {"sum", CollectiveStep::ReduceOp::kSum},         {"avg", CollectiveStep::ReduceOp::kAverage},
    {"product", CollectiveStep::ReduceOp::kProduct}, {"min", CollectiveStep::ReduceOp::kMin},
    {"max", CollectiveStep::ReduceOp::kMax},
};

const Argument* FindArgument(const ir::AtenCall& call, std::string_view name) {
  for (const auto& [given, argument] : call.args) {
    if (given == name) return &argument;
  }
  return nullptr;
}

template <typename T>
std::optional<T> ArgumentAs(const ir::AtenCall& call, std::string_view name) {
  const Argument* argument = FindArgument(call, name);
  const T* value = argument == nullptr ? nullptr : std::get_if<T>(&argument->value);
  return value == nullptr ? std::nullopt : std::optional<T>(*value);
}

std::optional<std::vector<int64_t>> NumbersOf(const ir::AtenCall& call, std::string_view name) {
  const std::optional<ArgumentList> list = ArgumentAs<ArgumentList>(call, name);
  if (!list.has_value()) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const Argument& item : *list) {
    const auto* number = std::get_if<int64_t>(&item.value);
    if (number == nullptr) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

std::optional<CollectiveStep::ReduceOp> ReductionOf(const ir::AtenCall& call) {
  const std::optional<std::string> name = ArgumentAs<std::string>(call, "reduce_op");
  for (const auto& [text, reduction] : kReductions) {
    if (name == text) return reduction;
  }
  return std::nullopt;
}

// Collectives move memory as it lies.
bool IsRowMajor(const ir::Node& node, size_t operand) {
  const ir::Value* value = node.operands[operand];
  return value != nullptr && ir::LiesAs(ir::Contiguous(value->type), node.aten->strides[operand]);
}

}  // namespace

std::optional<CollectiveStep> CollectiveStepOf(const ir::Node& node) {
  if (node.op != ir::OpKind::kAten) return std::nullopt;
  const ir::AtenCall& call = *node.aten;
  const auto* row =
      std::find_if(std::begin(kFunctionalCalls), std::end(kFunctionalCalls),
                   [&](const FunctionalCall& each) { return each.target == call.target; });
  const std::optional<std::string> group = ArgumentAs<std::string>(call, "group_name");
  if (row == std::end(kFunctionalCalls) || !group.has_value()) return std::nullopt;
  if (node.operands.empty() || node.operands.size() != node.results.size()) return std::nullopt;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    if (!IsRowMajor(node, i) || !node.results[i]->type.contiguous()) return std::nullopt;
  }
  CollectiveStep step{.op = row->op, .group = *group};
  const CollectiveRow& kind = kCollectives[static_cast<size_t>(row->op)];
  if (kind.reduces) {
    const std::optional<CollectiveStep::ReduceOp> reduction = ReductionOf(call);
    if (!reduction.has_value()) return std::nullopt;
    step.reduce_op = *reduction;
  }
  if (kind.is_sized) {
    const std::optional<int64_t> ranks = ArgumentAs<int64_t>(call, "group_size");
    if (!ranks.has_value() || *ranks < 1 || *ranks > INT32_MAX) return std::nullopt;
    step.group_size = static_cast<uint32_t>(*ranks);
  }
  if (kind.has_root) {
    const std::optional<int64_t> root = ArgumentAs<int64_t>(call, "src");
    if (!root.has_value() || *root < 0 || *root > INT32_MAX) return std::nullopt;
    step.root = static_cast<int32_t>(*root);
  }
  if (row->op == CollectiveStep::Op::kAllToAll) {
    std::optional<std::vector<int64_t>> sent = NumbersOf(call, "input_split_sizes");
    std::optional<std::vector<int64_t>> received = NumbersOf(call, "output_split_sizes");
    if (!sent.has_value() || !received.has_value()) return std::nullopt;
    step.group_size = static_cast<uint32_t>(std::max(sent->size(), received->size()));
    step.input_splits = *std::move(sent);
    step.output_splits = *std::move(received);
  }
  return step;
}

}  // namespace hpu::compiler
