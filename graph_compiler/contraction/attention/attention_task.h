// One task of attention (attention.h): the walk over blocks of keys and the softmax. The form
// (attention_forms.h) decides how products are computed and how operands, weights and results lie
// in memory for them.
#pragma once

#include <optional>

#include "graph_compiler/contraction/attention/attention.h"
#include "graph_compiler/contraction/attention/attention_dropout.h"
#include "graph_compiler/contraction/attention/attention_factors.h"

namespace hpu::graph_compiler {

class AttentionTask {
 public:
  AttentionTask(llvm::IRBuilder<>& builder, const TargetInfo& target, const KernelFrame& frame,
                const AttentionSpec& spec, const AttentionPlan& plan);
  AttentionTask(const AttentionTask&) = delete;
  AttentionTask& operator=(const AttentionTask&) = delete;
  virtual ~AttentionTask() = default;

  void Emit(llvm::Value* task);

 protected:
  enum Operand : uint32_t { kQ, kK, kV, kOut, kMask, kMaximum, kInverse, kSeed };

  // Packs the task's queries in panels; missing ones are 0. Called once.
  virtual void PackQueries();
  // Stages keys and values; called for every block.
  virtual void StageBlock() = 0;
  // Returns the keys from `key` of the block on.
  virtual FactorRows KeyRows(llvm::Value* key) = 0;
  // Returns the products of key_rows keys from `key` of the block on and query_cols queries.
  virtual Values Products(llvm::Value* key, llvm::Value* query);
  // Returns where the scores of a vector of queries begin; keys lie score_stride() bytes apart.
  virtual llvm::Value* ScoreColumn(llvm::Value* query) = 0;
  virtual int64_t score_stride() const = 0;
  // For a causal rule these return the first panel of queries that reads weights of keys from `key`
  // on, and how many keys of the block a vector of queries reads. All other products and
  // exponentials are left out.
  virtual llvm::Value* FirstPanel(llvm::Value* key) = 0;
  virtual llvm::Value* KeysRead(llvm::Value* query) = 0;
  // Stores kWeightsAtOnce rows of weights, from `row` of the column on, in place of the scores.
  virtual void StoreWeights(llvm::Value* column, llvm::Value* row, const Values& weights) = 0;
  // Called after the last of `rows` rows of weights of a column.
  virtual void FinishColumn(llvm::Value*, llvm::Value*) {}
  // Computes O = O * correction + P V.
  virtual void AddOutputs() = 0;
  // Makes rows of O at `output_rows` of scratch if they do not lie there yet.
  virtual void FinishOutputs() {}

  TileShape ScoreShape() const { return {plan_.key_rows, plan_.query_vectors}; }
  llvm::Value* QueryPanel(llvm::Value* query) {
    return e_.Address(Scratch(scratch_.queries), e_.Mul(query, panels_.steps() * 4));
  }
  // Returns the number of keys of the block that some of `count` queries from `query` on see.
  llvm::Value* KeysSeen(llvm::Value* query, int64_t count);
  bool SkipsAboveDiagonal() const { return spec_.causal && !plan_.folds_heads; }
  // Returns the keys rounded up to groups whose exponentials are in flight together.
  llvm::Value* WholeGroups(llvm::Value* keys);
  llvm::Value* Scratch(int64_t offset) { return e_.Address(frame_.scratch, offset); }
  llvm::Value* OperandRow(Operand operand, const int64_t* strides, llvm::Value* head,
                          llvm::Value* row, int size);
  void Fill(int64_t offset, int64_t floats, float value);

  IrEmitter e_;
  const KernelFrame& frame_;
  const AttentionSpec& spec_;
  const AttentionPlan& plan_;
  const AttentionScratch scratch_;
  const QueryPanels panels_;
  const int size_;
  llvm::Value* batch_ = nullptr;
  llvm::Value* head_ = nullptr;  // the first one, if heads are folded
  llvm::Value* key_head_ = nullptr;
  llvm::Value* first_row_ = nullptr;
  llvm::Value* rows_ = nullptr;  // query rows of this task
  llvm::Value* first_key_ = nullptr;
  llvm::Value* keys_ = nullptr;  // keys of this block

 private:
  void KeyBlock(llvm::Value* key, llvm::Value* end);
  llvm::Value* MaskAddress(llvm::Value* key);
  void CopyBlockMaximum();
  void ScoreTile(llvm::Value* row, llvm::Value* col);
  ScoreBlock Block();
  void Exponentials(llvm::Value* col);
  void StoreOutput();
  void StoreStatistics(llvm::Value* row, llvm::Value* empty, llvm::Value* inverse);
  Values OutputIndex(llvm::Value* row);

  std::optional<KeptWeights> kept_;
};

}  // namespace hpu::graph_compiler
