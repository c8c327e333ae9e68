#include "graph_compiler/contraction/tiles/epilogue.h"

#include <algorithm>
#include <optional>

#include "graph_compiler/codegen/body.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

// The longest body that is repeated for every row of a tile, in instructions per vector: a norm's
// scale and shift, a rounding, a residual and a limit on both sides fit.
constexpr size_t kMostInlineInstructions = 12;

// Returns the instructions of an op per vector, or nothing if they are many.
std::optional<size_t> Instructions(const BodyOp& op) {
  switch (op.op) {
    case Opcode::kAccumulator:
    case Opcode::kConstF32:
    case Opcode::kConstInt:
      return 0;
    case Opcode::kRoundTo:  // narrows and widens
      return 3;
    default:
      if (op.op > Opcode::kFma || op.op == Opcode::kDiv) return std::nullopt;
      return 1;
  }
}

bool IsShort(const Body& body) {
  size_t instructions = body.stores.size();
  for (const BodyOp& op : body.ops) {
    const std::optional<size_t> more = Instructions(op);
    if (!more.has_value()) return false;
    instructions += *more;
  }
  return instructions <= kMostInlineInstructions;
}

// Returns whether the sum is i32, held in the bits of an f32.
bool SumsIntegers(const Body& body) {
  return std::any_of(body.ops.begin(), body.ops.end(), [](const BodyOp& op) {
    return op.op == Opcode::kAccumulator && op.type == ScalarType::kI32;
  });
}

class TileEpilogue {
 public:
  TileEpilogue(IrEmitter& e, const KernelFrame& frame, const Body& body, TileShape shape,
               const TilePlace& place)
      : e_(e),
        frame_(frame),
        body_(body),
        shape_(shape),
        place_(place),
        cols_(shape.vectors * e.lanes()),
        sums_integers_(SumsIntegers(body)) {}

  void Emit(const Values& tile) {
    Value* all = e_.Int(shape_.rows);
    if (place_.rows_left == nullptr) return EmitRows(tile, all);
    if (tile.empty()) return EmitRows(tile, e_.Min(place_.rows_left, all));
    e_.If(
        e_.b.CreateICmpSGE(place_.rows_left, all), [&] { EmitRows(tile, all); },
        [&] { EmitRows(tile, place_.rows_left); });
  }

 private:
  void EmitRows(const Values& tile, Value* rows) {
    const bool inline_rows = !tile.empty() && IsShort(body_) && llvm::isa<llvm::ConstantInt>(rows);
    const bool has_tail = place_.cols_total % cols_ != 0;
    const auto all_columns = [&] {
      inline_rows ? OnRegisters(tile, cols_) : FromBuffer(tile, rows, nullptr);
    };
    if (!has_tail) return all_columns();
    if (place_.cols_total < cols_ && inline_rows) return OnRegisters(tile, place_.cols_total);
    Value* left = e_.Sub(e_.Int(place_.cols_total), place_.col);
    const auto some_columns = [&] { FromBuffer(tile, rows, e_.LaneMask(left, cols_)); };
    if (place_.cols_total < cols_) return some_columns();
    e_.If(e_.b.CreateICmpSGE(left, e_.Int(cols_)), all_columns, some_columns);
  }

  // `cols` of the tile's columns exist.
  void OnRegisters(const Values& tile, int64_t cols) {
    for (int r = 0; r < shape_.rows; ++r) {
      for (int v = 0; v < shape_.vectors; ++v) {
        const int64_t left = cols - int64_t{v} * e_.lanes();
        if (left <= 0) break;
        Value* mask = left < e_.lanes() ? e_.LaneMask(e_.Int(left), e_.lanes()) : nullptr;
        Row(e_.Add(place_.row, r), e_.Add(place_.col, v * e_.lanes()), e_.lanes(), mask,
            tile[static_cast<size_t>(r) * shape_.vectors + v]);
      }
    }
  }

  void FromBuffer(const Values& tile, Value* rows, Value* mask) {
    const int64_t row_bytes = cols_ * 4;
    if (!tile.empty()) StoreTile(e_, shape_, place_.tile_buffer, row_bytes, tile);
    e_.For(e_.Int(0), rows, 1, [&](Value* r) {
      Value* sums = e_.LoadF32(e_.Address(place_.tile_buffer, e_.Mul(r, row_bytes)), cols_);
      Row(e_.Add(place_.row, r), place_.col, cols_, mask, sums);
    });
  }

  void Row(Value* row, Value* col, int lanes, Value* mask, Value* sums) {
    BodyPosition position;
    position.index = place_.prefix;
    if (place_.row_index) {
      for (Value* value : place_.row_index(row)) position.index.push_back(value);
    } else {
      position.index.push_back(row);
    }
    position.index.push_back(place_.first_col == nullptr ? col : e_.Add(place_.first_col, col));
    position.lanes = lanes;
    position.mask = mask;
    if (sums_integers_) sums = e_.b.CreateBitCast(sums, e_.I32(lanes));
    EmitBody(e_.b, frame_, e_.target(), body_, position, {sums});
  }

  IrEmitter& e_;
  const KernelFrame& frame_;
  const Body& body_;
  const TileShape shape_;
  const TilePlace& place_;
  const int cols_;
  const bool sums_integers_;
};

template <typename Visit>
void ForEachAccess(Body& body, Visit visit) {
  for (BodyOp& op : body.ops) {
    if (op.op == Opcode::kLoad) visit(op.access);
  }
  for (Store& store : body.stores) visit(store.access);
}

bool SameRef(const OperandRef& x, const OperandRef& y) {
  return x.kind == y.kind && x.index == y.index && x.offset == y.offset;
}

}  // namespace

Body BindEpilogue(const Body& body, const std::vector<OperandRef>& epilogue_operands,
                  std::vector<OperandRef>& launch_operands) {
  Body bound = body;
  ForEachAccess(bound, [&](Access& access) {
    OperandRef ref = epilogue_operands[access.operand.number];
    if (access.offset > 0) {
      ref.offset +=
          static_cast<uint64_t>(access.offset) * static_cast<uint64_t>(MemoryTypeSize(access.type));
      access.offset = 0;
    }
    const auto found = std::find_if(launch_operands.begin(), launch_operands.end(),
                                    [&](const OperandRef& other) { return SameRef(ref, other); });
    access.operand = static_cast<uint32_t>(found - launch_operands.begin());
    if (found == launch_operands.end()) launch_operands.push_back(ref);
  });
  return bound;
}

uint64_t EpilogueBytes(const Body& body, uint64_t elements) {
  uint64_t bytes = 0;
  Body copy = body;
  ForEachAccess(copy, [&](const Access& access) {
    const bool varies_by_row = std::count_if(access.strides.begin(), access.strides.end(),
                                             [](int64_t stride) { return stride != 0; }) > 1;
    if (varies_by_row) bytes += elements * static_cast<uint64_t>(MemoryTypeSize(access.type));
  });
  return bytes;
}

void PrefetchTileEpilogue(IrEmitter& e, const KernelFrame& frame, const Body& body, TileShape shape,
                          const TilePlace& place) {
  const size_t row_dim = place.prefix.size(), col_dim = row_dim + 1;
  std::vector<Access> fetched;
  Body copy = body;
  ForEachAccess(copy, [&](const Access& access) {
    const bool rows_apart = access.strides.size() == col_dim + 1 && access.strides[row_dim] != 0 &&
                            access.strides[col_dim] == 1 && access.indirect_value == kNoValue;
    const bool known = std::any_of(fetched.begin(), fetched.end(), [&](const Access& other) {
      return other.operand == access.operand && other.offset == access.offset &&
             other.strides == access.strides;
    });
    if (!rows_apart || known) return;
    fetched.push_back(access);
    const int64_t size = MemoryTypeSize(access.type);
    Values index = place.prefix;
    index.push_back(place.row);
    index.push_back(place.col);
    Value* first = e.Add(e.Dot(index, access.strides), access.offset);
    Value* base = e.Address(frame.BaseOf(e.b, access.operand), e.Mul(first, size));
    for (int r = 0; r < shape.rows; ++r) {
      const int64_t row = r * access.strides[row_dim] * size;
      for (int64_t line = 0; line < shape.vectors * e.lanes() * size; line += kLineBytes) {
        e.PrefetchToL1(e.Address(base, row + line));
      }
    }
  });
}

void EmitRowEpilogue(IrEmitter& e, const KernelFrame& frame, const Body& body, const Values& index,
                     int64_t cols_total, Value* sums) {
  BodyPosition position;
  position.index = index;
  position.lanes = e.lanes();
  const auto emit = [&] { EmitBody(e.b, frame, e.target(), body, position, {sums}); };
  if (cols_total % e.lanes() == 0) return emit();
  Value* left = e.Sub(e.Int(cols_total), index.back());
  e.If(e.b.CreateICmpSGE(left, e.Int(e.lanes())), emit, [&] {
    position.mask = e.LaneMask(left, e.lanes());
    emit();
  });
}

void EmitTileEpilogue(IrEmitter& e, const KernelFrame& frame, const Body& body, TileShape shape,
                      const Values& tile, const TilePlace& place) {
  TileEpilogue(e, frame, body, shape, place).Emit(tile);
}

}  // namespace hpu::graph_compiler
