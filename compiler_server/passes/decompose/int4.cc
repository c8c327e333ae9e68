// Rewrites integers of 4 bits that are packed in words of 32: number i of a row of words is in the
// word i / 8, at bit 4 (i % 8).
#include "compiler_server/passes/decompose/expression.h"

namespace hpu::compiler {
namespace {

constexpr int64_t kPerWord = 8;

// Returns the numbers of words [.., words] as f32 [.., 8 words].
template <bool has_sign>
Expr Unpacked(Call& call, Value* words) {
  Dims apart = words->type.sizes;
  Dims together = apart;
  apart.push_back(1);
  together.back() *= kPerWord;
  Value* word = call.b.Reshape(words, apart);
  std::vector<Value*> numbers;
  for (int64_t i = 0; i < kPerWord; ++i) {
    // A division that rounds down is a shift.
    Value* shifted =
        i == 0 ? word
               : call.b.Binary(OpKind::kFloorDiv, word, static_cast<double>(int64_t{1} << (4 * i)));
    numbers.push_back(call.b.Binary(OpKind::kBitwiseAnd, shifted, 15.0));
  }
  const Expr joined =
      Cast({&call, call.b.Concat(std::move(numbers), words->type.rank())}, DType::kF32);
  const Expr flat = Reshape(joined, together);
  return has_sign ? flat - Cast(flat >= 8.0, DType::kF32) * 16.0 : flat;
}

// convert_from_int4(words, scale, zero, dtype, group index) gives (number - zero) * scale. Scales
// and zeros are given for groups of rows; those of words that are no matrix are broadcast.
template <bool has_sign>
void ConvertFromInt4(Call& call) {
  Value* words = call.Tensor(kInput);
  Value* scale = call.Tensor("scale");
  Value* zero = call.OptionalTensor("zero_point");
  if (call.refused()) return;
  const int64_t rank = words->type.rank();
  if (words->type.dtype != DType::kI32 || rank == 0 || (rank != 2 && call.Has("g_idx"))) {
    return call.Refuse("packed numbers ", ToText(words->type));
  }
  const int64_t rows = words->type.sizes[0];
  const auto by_row = [&](Expr factor) {
    if (rank != 2 || factor.rank() != 2 || factor.sizes()[0] == 1) return factor;
    if (call.Has("g_idx")) {
      return Expr{&call, call.b.Gather(factor.value, call.Tensor("g_idx"), 0)};
    }
    const int64_t groups = factor.sizes()[0];
    if (groups == rows) return factor;
    if (rows % groups != 0) call.Refuse(groups, " groups of ", rows, " rows");
    if (call.refused()) return factor;
    const int64_t columns = factor.sizes()[1];
    return Reshape(Expand(Reshape(factor, {groups, 1, columns}), {groups, rows / groups, columns}),
                   {rows, columns});
  };
  Expr number = Unpacked<has_sign>(call, words);
  if (zero != nullptr) {
    const bool packed = zero->type.dtype == DType::kI32;
    number = number - by_row(packed ? Unpacked<has_sign>(call, zero) : In(call, zero));
  }
  Give(call, number * by_row(In(call, scale)));
}

constexpr HandlerRow kInt4Rows[] = {
    {"hpu.convert_from_int4.default", ConvertFromInt4<true>},
    {"hpu.convert_from_uint4.default", ConvertFromInt4<false>},
};

}  // namespace

std::span<const HandlerRow> Int4Rows() { return kInt4Rows; }

}  // namespace hpu::compiler
