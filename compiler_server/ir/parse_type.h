// Reads types from the text form.
#pragma once

#include <string_view>

#include "compiler_server/ir/lexer.h"
#include "compiler_server/ir/types.h"

namespace hpu::ir {

// Integers between `open` and `close`, separated by commas.
Dims ParseList(Lexer& lexer, std::string_view open, std::string_view close);

// An element type, sizes, and strides if they are not row-major: "f32[2,3]{1,2}".
TensorType ParseType(Lexer& lexer);

}  // namespace hpu::ir
