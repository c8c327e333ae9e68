#include "compiler_server/ir/parse_type.h"

#include <algorithm>
#include <optional>

namespace hpu::ir {

Dims ParseList(Lexer& lexer, std::string_view open, std::string_view close) {
  Dims values;
  lexer.Expect(open);
  if (lexer.Try(close)) return values;
  do values.push_back(lexer.Integer());
  while (lexer.ok() && lexer.Try(","));
  lexer.Expect(close);
  return values;
}

TensorType ParseType(Lexer& lexer) {
  const std::string_view name = lexer.Word();
  const std::optional<DType> dtype = DTypeFromName(name);
  if (!dtype) {
    lexer.Fail("'", name, "' is no element type");
    return Contiguous(DType::kF32, {});
  }
  Dims sizes = ParseList(lexer, "[", "]");
  const auto bad = [](int64_t v) { return v < 0 || v > kMaxElements; };
  if (sizes.size() > kMaxRank || std::any_of(sizes.begin(), sizes.end(), bad)) {
    lexer.Fail("bad sizes ", ToText(sizes));
    sizes.clear();
  }
  TensorType type{*dtype, sizes, {}};
  // Strides follow at once; a brace after a space opens the graph's body.
  if (lexer.PeekAdjacent('{')) {
    type.strides = ParseList(lexer, "{", "}");
    if (type.strides.size() != sizes.size()) {
      lexer.Fail("strides for ", sizes.size(), " dimensions are expected");
      type.strides.resize(sizes.size());
    }
  } else if (lexer.ok()) {
    type.strides = RowMajorStrides(sizes);
  }
  type.strides.resize(sizes.size());
  return type;
}

}  // namespace hpu::ir
