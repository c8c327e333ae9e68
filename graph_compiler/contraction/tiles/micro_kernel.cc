#include "graph_compiler/contraction/tiles/micro_kernel.h"

#include <algorithm>

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

// Two pipes of latency four need eight independent multiply-adds in flight.
constexpr int kIndependentChains = 8;
constexpr int kUnroll = 4;
// From here on the last steps are a loop, so that the code does not depend on their number.
constexpr int64_t kStepsWithRestInLoop = 64;
// More than half a line per k step would cost as much as it hides.
constexpr int64_t kMaxPrefetchStep = 32;

class TileEmitter {
 public:
  TileEmitter(IrEmitter& e, TileShape shape, const TileA& a, const TileB& b)
      : e_(e), shape_(shape), a_(a), b_(b), size_(shape.rows * shape.vectors) {
    // Small tiles keep several sets of accumulators; step k uses set k modulo the number of sets.
    sets_ = std::clamp(kIndependentChains / size_, 1, 4);
  }

  Values Run(Value* count, int64_t fixed_count, const Values& init) {
    Values state = init;
    state.resize(static_cast<size_t>(size_) * sets_, e_.Zero(e_.lanes()));
    const bool known = fixed_count >= 0;
    Value* full = known ? e_.Int(fixed_count / kUnroll * kUnroll)
                        : e_.Mul(e_.DivConst(count, kUnroll), kUnroll);
    // Byte offsets into A and the address in B are carried so that every access is base plus index
    // plus constant.
    a_offset_ = state.size();
    b_base_ = a_offset_ + 1;
    prefetch_ = b_base_ + 1;
    state.push_back(a_.start != nullptr ? a_.start : e_.Int(0));
    state.push_back(b_.base);
    if (b_.prefetch != nullptr) state.push_back(b_.prefetch);
    state = Loop(e_.Int(0), full, kUnroll, std::move(state));
    if (known && fixed_count < kStepsWithRestInLoop) {
      state = Steps(static_cast<int>(fixed_count % kUnroll), std::move(state));
    } else {
      state = Loop(full, known ? e_.Int(fixed_count) : count, 1, std::move(state));
    }
    return JoinSets(state);
  }

 private:
  Values Loop(Value* begin, Value* end, int step, Values state) {
    return e_.For(begin, end, step, state,
                  [&](Value*, const Values& carried) { return Steps(step, carried); });
  }

  Values Steps(int count, Values state) {
    Value* a_offset = state[a_offset_];
    Value* b_base = state[b_base_];
    for (int64_t line = 0; line < count * b_.prefetch_step; line += kLineBytes) {
      e_.PrefetchToL2(e_.Address(state[prefetch_], line));
    }
    for (int k = 0; k < count; ++k) Step(k, a_offset, b_base, state);
    if (count > 0) {
      state[a_offset_] = e_.Add(a_offset, count * a_.k_stride);
      state[b_base_] = e_.Address(b_base, count * b_.k_stride);
      if (b_.prefetch != nullptr) {
        state[prefetch_] = e_.Address(state[prefetch_], count * b_.prefetch_step);
      }
    }
    return state;
  }

  void Step(int k, Value* a_offset, Value* b_base, Values& state) {
    const Values b = LoadB(e_.Address(b_base, k * b_.k_stride));
    const size_t set = static_cast<size_t>(k % sets_) * size_;
    for (int r = 0; r < shape_.rows; ++r) {
      Value* row = a_.row_bases[a_.row_bases.size() == 1 ? 0 : r];
      Value* address = e_.Address(e_.Address(row, a_offset), a_.row_offsets[r] + k * a_.k_stride);
      Value* a = e_.Splat(e_.LoadF32(address, 1), e_.lanes());
      for (int v = 0; v < shape_.vectors; ++v) {
        Value*& sum = state[set + static_cast<size_t>(r) * shape_.vectors + v];
        sum = IsInteger(b_.type)                 ? e_.DotIntegers(a, b[v], sum)
              : b_.type == PanelType::kBF16Pairs ? e_.DotPairs(a, b[v], sum)
                                                 : e_.Fma(a, b[v], sum);
      }
    }
  }

  Values LoadB(Value* row) {
    Values vectors;
    const int bytes = e_.lanes() * 4;
    if (b_.type != PanelType::kBF16Vectors) {
      for (int v = 0; v < shape_.vectors; ++v) {
        Value* address = e_.Address(row, v * bytes);
        vectors.push_back(b_.masks.empty()
                              ? e_.LoadF32(address, e_.lanes())
                              : e_.LoadWide(address, MemoryType::kF32, e_.lanes(), b_.masks[v]));
      }
      return vectors;
    }
    llvm::Type* dwords = llvm::FixedVectorType::get(e_.b.getInt32Ty(), e_.lanes());
    for (int v = 0; v < shape_.vectors; v += 2) {
      Value* pair = e_.b.CreateAlignedLoad(dwords, e_.Address(row, v / 2 * bytes), llvm::Align(4));
      Value* low = e_.b.CreateShl(pair, llvm::ConstantInt::get(dwords, 16));
      Value* high = e_.b.CreateAnd(pair, llvm::ConstantInt::get(dwords, 0xffff0000u));
      vectors.push_back(e_.b.CreateBitCast(low, e_.F32(e_.lanes())));
      vectors.push_back(e_.b.CreateBitCast(high, e_.F32(e_.lanes())));
    }
    return vectors;
  }

  Values JoinSets(const Values& state) {
    Values sums(state.begin(), state.begin() + size_);
    for (int set = 1; set < sets_; ++set) {
      for (int i = 0; i < size_; ++i) sums[i] = Join(sums[i], state[set * size_ + i]);
    }
    return sums;
  }

  Value* Join(Value* x, Value* y) {
    if (!IsInteger(b_.type)) return e_.b.CreateFAdd(x, y);
    llvm::Type* dwords = e_.I32(e_.lanes());
    Value* sum = e_.b.CreateAdd(e_.b.CreateBitCast(x, dwords), e_.b.CreateBitCast(y, dwords));
    return e_.b.CreateBitCast(sum, x->getType());
  }

  IrEmitter& e_;
  const TileShape shape_;
  const TileA& a_;
  const TileB& b_;
  const int size_;
  int sets_ = 1;
  // Places in the carried state after the accumulators.
  size_t a_offset_ = 0, b_base_ = 0, prefetch_ = 0;
};

}  // namespace

Values ZeroTile(IrEmitter& e, TileShape shape) {
  return Values(static_cast<size_t>(shape.rows) * shape.vectors, e.Zero(e.lanes()));
}

Values LoadTile(IrEmitter& e, TileShape shape, Value* base, int64_t row_stride_bytes) {
  Values tile;
  for (int r = 0; r < shape.rows; ++r) {
    for (int v = 0; v < shape.vectors; ++v) {
      tile.push_back(
          e.LoadF32(e.Address(base, r * row_stride_bytes + v * e.lanes() * 4), e.lanes()));
    }
  }
  return tile;
}

void StoreTile(IrEmitter& e, TileShape shape, Value* base, int64_t row_stride_bytes,
               const Values& accumulators) {
  for (int r = 0; r < shape.rows; ++r) {
    for (int v = 0; v < shape.vectors; ++v) {
      e.StoreF32(e.Address(base, r * row_stride_bytes + v * e.lanes() * 4),
                 accumulators[static_cast<size_t>(r) * shape.vectors + v]);
    }
  }
}

void PrefetchNextPanel(IrEmitter& e, TileB& b, int64_t panel_bytes, int64_t tiles, int64_t steps,
                       Value* pass, Value* k_before) {
  // This fetches a whole line per unrolled iteration; running ahead a little does no harm.
  constexpr int64_t kGranule = kLineBytes / kUnroll;
  const int64_t step = (b.k_stride + tiles * kGranule - 1) / (tiles * kGranule) * kGranule;
  if (step > kMaxPrefetchStep) return;
  Value* share = e.Add(e.Mul(pass, steps * step), e.Mul(k_before, step));
  Value* panel = e.Address(b.base, e.Sub(e.Int(panel_bytes), e.Mul(k_before, b.k_stride)));
  b.prefetch = e.Address(panel, share);
  b.prefetch_step = step;
}

Values AccumulateTile(IrEmitter& e, TileShape shape, const TileA& a, const TileB& b, int64_t count,
                      const Values& accumulators) {
  return TileEmitter(e, shape, a, b).Run(nullptr, count, accumulators);
}

Values AccumulateTile(IrEmitter& e, TileShape shape, const TileA& a, const TileB& b, Value* count,
                      const Values& accumulators) {
  return TileEmitter(e, shape, a, b).Run(count, -1, accumulators);
}

}  // namespace hpu::graph_compiler
