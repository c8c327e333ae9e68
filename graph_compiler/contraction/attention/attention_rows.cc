#include "graph_compiler/contraction/attention/attention_rows.h"

#include <cmath>

#include "graph_compiler/contraction/attention/attention_rows_task.h"

namespace hpu::graph_compiler {
namespace attention_rows {
namespace {

using llvm::Value;

constexpr int64_t kMostVectors = 16;  // vectors of features, which are unrolled

bool HasMask(const AttentionSpec& spec) { return spec.mask.kind != OperandRef::Kind::kNull; }

class ChunkTask : public RowsTask {
 public:
  using RowsTask::RowsTask;

  void Emit(Value* task) {
    SetUnit(e_.DivConst(task, plan_.chunks));
    Value* chunk = e_.RemConst(task, plan_.chunks);
    first_key_ = e_.Mul(chunk, plan_.chunk);
    keys_ = e_.Min(e_.Sub(e_.Int(spec_.n), first_key_), e_.Int(plan_.chunk));
    LoadQueries();
    const Values maxima = Scores();
    Values totals;
    for (int64_t row = 0; row < plan_.rows; ++row) totals.push_back(Exponentials(row, maxima[row]));
    const Values sums = Output();
    for (int64_t row = 0; row < plan_.rows; ++row) {
      const Values own(sums.begin() + row * plan_.value_vectors,
                       sums.begin() + (row + 1) * plan_.value_vectors);
      if (plan_.chunks == 1) {
        StoreRow(row, own, totals[row]);
      } else {
        StorePartial(e_.Add(e_.Mul(task, plan_.rows), row), own, maxima[row], totals[row]);
      }
    }
  }

 private:
  const int64_t* Strides(uint32_t operand) const {
    return operand == kQ ? spec_.q_strides : operand == kK ? spec_.k_strides : spec_.v_strides;
  }

  Value* RowAddress(uint32_t operand, Value* head, Value* row) {
    const int64_t* strides = Strides(operand);
    Value* offset = e_.Dot({batch_, head, row}, {strides[0], strides[1], strides[2]});
    return e_.Address(frame_.Operand(e_.b, operand), e_.Mul(offset, MemoryTypeSize(spec_.type)));
  }

  // Loads vector v of a row of `size` features; lanes beyond the row read as 0.
  Value* LoadFeatures(Value* row, int64_t v, int64_t size) {
    const int64_t col = v * lanes_;
    Value* mask = col + lanes_ > size ? e_.LaneMask(e_.Int(size - col), lanes_) : nullptr;
    return e_.LoadWide(e_.Address(row, col * MemoryTypeSize(spec_.type)), spec_.type, lanes_, mask);
  }

  void LoadQueries() {
    for (int64_t row = 0; row < plan_.rows; ++row) {
      Value* address = RowAddress(kQ, HeadOf(row), e_.Int(QueryOf(row)));
      for (int64_t v = 0; v < plan_.key_vectors; ++v) {
        queries_.push_back(LoadFeatures(address, v, spec_.d));
      }
    }
  }

  Value* ScoreAddress(int64_t row, Value* key) {
    return e_.Address(frame_.scratch, e_.Add(e_.Mul(key, 4), row * plan_.chunk * 4));
  }

  bool HidesKeys() const { return HasMask(spec_) || spec_.causal; }

  // Returns what the mask adds to the scores of `lanes` keys: -inf for keys that do not exist.
  Value* MaskOf(int64_t row, Value* key) {
    Value* first = e_.Add(first_key_, key);
    Value* left = e_.Sub(e_.Int(spec_.n), first);
    Value* exists = e_.LaneMask(left, lanes_);
    Value* sum = e_.Zero(lanes_);
    if (HasMask(spec_)) {
      const int size = MemoryTypeSize(spec_.mask_type);
      Value* offset = e_.Dot({batch_, HeadOf(row), e_.Int(QueryOf(row)), first},
                             {spec_.mask_strides[0], spec_.mask_strides[1], spec_.mask_strides[2],
                              spec_.mask_strides[3]});
      Value* address = e_.Address(frame_.Operand(e_.b, kMask), e_.Mul(offset, size));
      sum = spec_.mask_strides[3] == 0 ? e_.Splat(e_.LoadWide(address, spec_.mask_type, 1), lanes_)
                                       : e_.LoadWide(address, spec_.mask_type, lanes_, exists);
    }
    if (spec_.causal) {
      Value* visible = e_.LaneMask(e_.Sub(e_.Int(QueryOf(row) + 1), first), lanes_);
      exists = e_.b.CreateAnd(exists, visible);
    }
    return e_.b.CreateSelect(exists, sum, e_.F32Const(-INFINITY, lanes_));
  }

  Value* AnyLane(Value* condition) { return e_.b.CreateOrReduce(condition); }

  // Writes the scores of the chunk to scratch and returns the maximum of each row.
  Values Scores() {
    const Values lowest(static_cast<size_t>(plan_.rows), e_.F32Const(-INFINITY, lanes_));
    Values maxima = e_.For(e_.Int(0), keys_, lanes_, lowest, [&](Value* key, const Values& so_far) {
      Values masks;
      Value* visible = nullptr;
      for (int64_t row = 0; row < plan_.rows; ++row) {
        masks.push_back(MaskOf(row, key));
        Value* seen = e_.b.CreateFCmpOGT(masks.back(), e_.F32Const(-INFINITY, lanes_));
        visible = visible == nullptr ? seen : e_.b.CreateOr(visible, seen);
      }
      const auto compute = [&] { return ScoreBlock(key, masks); };
      const Values scores =
          HidesKeys() ? e_.Choose(AnyLane(visible), compute, [&] { return masks; }) : compute();
      Values next;
      for (int64_t row = 0; row < plan_.rows; ++row) {
        e_.StoreF32(ScoreAddress(row, key), scores[row]);
        next.push_back(e_.MaxF32(scores[row], so_far[row]));
      }
      return next;
    });
    for (Value*& maximum : maxima) maximum = e_.b.CreateFPMaxReduce(maximum);
    return maxima;
  }

  Values ScoreBlock(Value* key, const Values& masks) {
    const Values dots = Dots(key, 0, lanes_);
    Values scores;
    for (int64_t row = 0; row < plan_.rows; ++row) {
      scores.push_back(e_.Fma(dots[row], e_.F32Const(spec_.scale, lanes_), masks[row]));
    }
    return scores;
  }

  // Returns a vector per row: lane i holds the dot product with key `first + i`, for `count` keys;
  // the other lanes hold parts of sums. This adds halves first, so that few vectors are alive.
  Values Dots(Value* key, int first, int count) {
    if (count == 1) return PartialDots(key, first);
    const Values low = Dots(key, first, count / 2);
    const Values high = Dots(key, first + count / 2, count / 2);
    Values joined;
    for (int64_t row = 0; row < plan_.rows; ++row) {
      joined.push_back(e_.AddInterleaved(low[row], high[row], count / 2));
    }
    return joined;
  }

  Values PartialDots(Value* key, int number) {
    Value* last = e_.Int(spec_.n - 1);
    Value* at = e_.Min(e_.Add(e_.Add(first_key_, key), number), last);
    Value* address = RowAddress(kK, key_head_, at);
    Values sums(static_cast<size_t>(plan_.rows), nullptr);
    for (int64_t v = 0; v < plan_.key_vectors; ++v) {
      Value* features = LoadFeatures(address, v, spec_.d);
      for (int64_t row = 0; row < plan_.rows; ++row) {
        Value* query = queries_[row * plan_.key_vectors + v];
        Value*& sum = sums[row];
        sum = sum == nullptr ? e_.b.CreateFMul(query, features) : e_.Fma(query, features, sum);
      }
    }
    return sums;
  }

  // Turns scores into exp(score - maximum) and returns their sum.
  Value* Exponentials(int64_t row, Value* maximum) {
    Value* shift = e_.Splat(Shift(maximum), lanes_);
    const Values sum =
        e_.For(e_.Int(0), keys_, lanes_, {e_.Zero(lanes_)}, [&](Value* key, const Values& so_far) {
          Value* address = ScoreAddress(row, key);
          Value* p = Weight(e_.b.CreateFSub(e_.LoadF32(address, lanes_), shift), lanes_);
          e_.StoreF32(address, p);
          return Values{e_.b.CreateFAdd(so_far[0], p)};
        });
    Values lanes(static_cast<size_t>(lanes_), e_.Zero(lanes_));
    lanes[0] = sum[0];
    return e_.b.CreateExtractElement(e_.SumLanes(lanes), uint64_t{0});
  }

  // Returns O of all rows, row after row.
  Values Output() {
    const Values zero(static_cast<size_t>(plan_.rows * plan_.value_vectors), e_.Zero(lanes_));
    return e_.For(e_.Int(0), keys_, lanes_, zero, [&](Value* key, const Values& so_far) {
      const auto add = [&] {
        Value* end = e_.Min(e_.Add(key, lanes_), keys_);
        return e_.For(key, end, 1, so_far,
                      [&](Value* at, const Values& sums) { return OutputStep(at, sums); });
      };
      if (!HidesKeys()) return add();
      Value* seen = nullptr;
      for (int64_t row = 0; row < plan_.rows; ++row) {
        Value* p = e_.LoadF32(ScoreAddress(row, key), lanes_);
        Value* some = e_.b.CreateFCmpONE(p, e_.Zero(lanes_));
        seen = seen == nullptr ? some : e_.b.CreateOr(seen, some);
      }
      return e_.Choose(AnyLane(seen), add, [&] { return so_far; });
    });
  }

  Values OutputStep(Value* key, const Values& sums) {
    Value* address = RowAddress(kV, key_head_, e_.Add(first_key_, key));
    Values next = sums;
    Values weights;
    for (int64_t row = 0; row < plan_.rows; ++row) {
      weights.push_back(e_.Splat(e_.LoadF32(ScoreAddress(row, key), 1), lanes_));
    }
    for (int64_t v = 0; v < plan_.value_vectors; ++v) {
      Value* features = LoadFeatures(address, v, spec_.dv);
      for (int64_t row = 0; row < plan_.rows; ++row) {
        Value*& sum = next[row * plan_.value_vectors + v];
        sum = e_.Fma(weights[row], features, sum);
      }
    }
    return next;
  }

  void StorePartial(Value* number, const Values& sums, Value* maximum, Value* total) {
    Value* to = e_.Address(frame_.Operand(e_.b, kOut), e_.Mul(number, plan_.partial * 4));
    for (size_t v = 0; v < sums.size(); ++v) {
      e_.StoreF32(e_.Address(to, static_cast<int64_t>(v) * lanes_ * 4), sums[v]);
    }
    const int64_t end = plan_.value_vectors * lanes_ * 4;
    e_.StoreF32(e_.Address(to, end), maximum);
    e_.StoreF32(e_.Address(to, end + 4), total);
  }

  Value* first_key_ = nullptr;
  Value* keys_ = nullptr;  // of this chunk
  Values queries_;         // vectors of features, row after row
};

KernelKey KeyOf(const char* kind, const AttentionSpec& spec) {
  KernelKey key(kind);
  AddToKey(key, spec);
  return key;
}

}  // namespace
}  // namespace attention_rows

bool FitsAttentionRows(const TargetInfo& target, const AttentionSpec& spec) {
  using namespace attention_rows;
  const int64_t most = kMostVectors * target.f32_lanes;
  const bool walks_mask = HasMask(spec) && spec.mask_strides[3] > 1;
  return !spec.HasStatistics() && !spec.Drops() && spec.m <= kMostRows && spec.d <= most &&
         spec.dv <= most && spec.q_strides[3] == 1 && spec.k_strides[3] == 1 &&
         spec.v_strides[3] == 1 && !walks_mask;
}

void EmitAttentionRows(KernelCache& cache, const AttentionSpec& spec, EmittedKernels* out) {
  using namespace attention_rows;
  const TargetInfo& target = cache.module().target();
  const RowPlan plan(target, spec);
  KernelLaunch launch = AttentionLaunch(spec);
  launch.tasks = static_cast<uint64_t>(plan.units * plan.chunks);
  launch.scratch_bytes = static_cast<uint64_t>(plan.rows * plan.chunk * 4);
  launch.grain = ChooseGrain(launch.tasks, launch.flops);
  launch.entry =
      cache.GetOrAdd(KeyOf("attention_rows", spec), "attention_rows",
                     [&](llvm::IRBuilder<>& builder, const KernelFrame& frame, Value* task) {
                       ChunkTask(builder, target, frame, spec, plan).Emit(task);
                     });
  if (plan.chunks == 1) {
    out->launches.push_back(std::move(launch));
    return;
  }
  const OperandRef partial{OperandRef::Kind::kWorkspace, kExtraWorkspace, out->workspace_bytes};
  out->workspace_bytes +=
      static_cast<uint64_t>(RoundUp(plan.units * plan.chunks * plan.rows * plan.partial * 4, 64));
  launch.operands[kOut] = partial;
  out->launches.push_back(std::move(launch));
  KernelLaunch join = AttentionLaunch(spec);
  join.operands = {partial, {}, {}, spec.out};
  join.tasks = static_cast<uint64_t>(plan.units);
  join.bytes = static_cast<uint64_t>(plan.units * plan.chunks * plan.rows * plan.partial * 4);
  join.flops = join.bytes / 2;
  join.grain = ChooseGrain(join.tasks, join.flops);
  join.entry =
      cache.GetOrAdd(KeyOf("attention_join", spec), "attention_join",
                     [&](llvm::IRBuilder<>& builder, const KernelFrame& frame, Value* task) {
                       EmitJoinTask(builder, target, frame, spec, plan, task);
                     });
  out->launches.push_back(std::move(join));
}

}  // namespace hpu::graph_compiler