#include "backend/torch/record/recording_structure.h"

#include <span>
#include <string_view>
#include <unordered_map>

namespace hpu::torch_backend {
namespace {

class Bytes {
 public:
  void Word(uint64_t word) { text_.append(reinterpret_cast<const char*>(&word), sizeof(word)); }
  void Text(std::string_view text) {
    Word(text.size());
    text_.append(text);
  }
  template <typename Integer>
  void List(std::span<const Integer> words) {
    Word(words.size());
    for (const Integer word : words) Word(word);
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace

std::string StructureOf(const Recording& recording, const std::vector<uint32_t>& filled) {
  Bytes bytes;
  std::unordered_map<const CallRule*, uint64_t>
      rules;  // by rule: its place among the distinct ones
  Bytes calls;
  for (const Recording::Call& call : recording.calls()) {
    const auto [rule, is_new] = rules.emplace(call.rule.get(), rules.size());
    calls.Word(rule->second);
    if (is_new) {
      calls.Text(call.rule->op.schema().name());
      calls.Text(call.rule->op.schema().overload_name());
      calls.List(std::span(call.rule->words));
    }
    for (size_t i = 0; i < call.rule->tensors.size(); ++i) {
      calls.Word(recording.operand(call, i).value);
      calls.Word(static_cast<uint64_t>(recording.DistanceOf(call, i)));
    }
    calls.Word(call.first_result);
  }
  bytes.Word(recording.calls().size());
  bytes.Text(calls.Take());
  bytes.Word(recording.values().size());
  for (const Recording::Value& value : recording.values()) {
    bytes.Word(static_cast<uint64_t>(value.kind));
    bytes.Word(static_cast<uint64_t>(value.parameter));
    const bool is_made =
        value.kind == Recording::Value::Kind::kMade || value.kind == Recording::Value::Kind::kEmpty;
    bytes.Word(is_made ? value.storage.nbytes() : 0);
  }
  bytes.List(std::span(filled));
  return bytes.Take();
}

}  // namespace hpu::torch_backend
