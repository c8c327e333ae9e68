// The base classes of the kernels of attention's gradient.
#pragma once

#include <memory>
#include <optional>

#include "graph_compiler/codegen/body.h"
#include "graph_compiler/contraction/attention/attention_backward.h"
#include "graph_compiler/contraction/attention/attention_dropout.h"
#include "graph_compiler/contraction/attention/attention_factors.h"
#include "graph_compiler/contraction/tiles/micro_kernel.h"

namespace hpu::graph_compiler::attention_backward {

inline BodyOp MakeOp(Opcode opcode, std::vector<uint32_t> args = {}) {
  BodyOp op;
  op.op = opcode;
  op.type = ScalarType::kF32;
  op.args = std::move(args);
  return op;
}

// Stores rows of a gradient, which both kernels do.
class Base {
 public:
  Base(llvm::IRBuilder<>& builder, const TargetInfo& target, const KernelFrame& frame,
       const AttentionBackwardSpec& spec, const Plan& plan)
      : e_(builder, target),
        frame_(frame),
        gradient_(spec),
        spec_(spec.forward),
        plan_(plan),
        key_heads_(spec.forward.heads / spec.forward.kv_repeat) {}

 protected:
  // Returns the address of a task's share of dK or dV.
  llvm::Value* Partial(llvm::Value* task, bool of_values) {
    llvm::Value* offset = e_.Mul(task, plan_.partial_floats() * 4);
    if (of_values) offset = e_.Add(offset, plan_.keys * plan_.d.width * 4);
    return e_.Address(frame_.Operand(e_.b, kPartial), offset);
  }

  // Stores one row of `operand`; `load` returns `cols` floats from a column on.
  void StoreRow(Operand operand, const int64_t* strides, const Features& features,
                llvm::Value* head, llvm::Value* row,
                const std::function<llvm::Value*(llvm::Value* col)>& load) {
    Body store;
    store.ops.push_back(MakeOp(Opcode::kAccumulator));
    Store to;
    to.access.operand = operand;
    to.access.type = spec_.type;
    to.access.strides.assign(strides, strides + 4);
    store.stores.push_back(to);
    const int cols = static_cast<int>(features.cols);
    e_.For(e_.Int(0), e_.Int(features.panels), 1, [&](llvm::Value* panel) {
      llvm::Value* col = e_.Mul(panel, cols);
      BodyPosition position;
      position.index = {batch_, head, row, col};
      position.lanes = cols;
      if (features.size % cols != 0) {
        position.mask = e_.LaneMask(e_.Sub(e_.Int(features.size), col), cols);
      }
      EmitBody(e_.b, frame_, e_.target(), store, position, {load(col)});
    });
  }

  IrEmitter e_;
  const KernelFrame& frame_;
  const AttentionBackwardSpec& gradient_;
  const AttentionSpec& spec_;
  const Plan& plan_;
  const int64_t key_heads_;
  llvm::Value* batch_ = nullptr;
  llvm::Value* key_head_ = nullptr;
};

// One task: the walk over blocks of queries and of keys, the softmax's gradient, and the products.
// The form (as in attention_forms.h) decides how operands, weights P, slopes dS and sums lie in
// memory, and how a tile of a product is computed from them.
class Task : public Base {
 public:
  Task(llvm::IRBuilder<>& builder, const TargetInfo& target, const KernelFrame& frame,
       const AttentionBackwardSpec& spec, const Plan& plan);
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  virtual ~Task() = default;

  void Emit(llvm::Value* task);

 protected:
  // Steps of a product, known only at run time. Where there are AMX tiles, tiles of `depth` steps
  // divide them.
  struct Steps {
    llvm::Value* count;
    int depth;
  };
  // A tile of scores, or of products with values, and the part of scratch in which it lies.
  struct ScoreTile {
    int64_t part;
    llvm::Value* row;
    llvm::Value* query;
  };
  // Rows of a gradient; rows lie `stride` bytes apart.
  struct Sums {
    llvm::Value* first;
    int64_t stride;
  };

  // Stages keys and values of the head; called once.
  virtual void StageKeys() = 0;
  // Stages Q and dO; called for every block of queries.
  virtual void StageQueries() = 0;
  // Returns a b.
  virtual Values Product(const FactorRows& a, const TileB& b, int64_t steps, const ScoreTile& tile);
  // Computes sums += a b.
  virtual void AddProduct(TileShape shape, const FactorRows& a, const TileB& b, const Steps& steps,
                          const Sums& sums);

  // Return the number of rows of keys and of queries that are weighed: all of the block, and the
  // rows that fill it up.
  virtual llvm::Value* WeighedRows() { return keys_; }
  virtual llvm::Value* WeighedQueries() { return queries_; }
  // Stores kRowsAtOnce rows of P and dS from `row` on, for a vector of queries; scores of queries
  // before `query` and of rows before `row` have been read.
  virtual void StoreWeights(llvm::Value* row, llvm::Value* query, const Values& weights,
                            const Values& slopes) = 0;
  // Return the steps of products over the block's queries and over its keys.
  virtual Steps QuerySteps() = 0;
  virtual Steps KeySteps() = 0;
  // Computes dQ += dS K of a block.
  virtual void AddToQueries() = 0;
  // Makes rows of dQ at `query_gradients` if they do not lie there yet.
  virtual void FinishQueries() {}
  // Called at the end of the task.
  virtual void Finish() {}

  llvm::Value* Place(int64_t offset) { return e_.Address(frame_.scratch, offset); }
  llvm::Value* Place(int64_t offset, llvm::Value* floats) {
    return e_.Address(Place(offset), e_.Mul(floats, 4));
  }
  llvm::Value* OperandRow(Operand operand, const int64_t* strides, llvm::Value* head,
                          llvm::Value* row, int size);
  void Clear(llvm::Value* base, int64_t floats);
  // Stages rows from `row` on as f32, padded to whole panels.
  void StageRows(Operand operand, const int64_t* strides, llvm::Value* head, llvm::Value* row,
                 llvm::Value* rows, const Features& features, int64_t to);
  // Stages the block's queries, or gradients of results, in panels.
  void StagePanels(Operand operand, const int64_t* strides, const Features& features, int64_t to);
  // Describes the second factor: rows that are `width` dwords apart.
  TileB RowsOf(llvm::Value* first, int64_t width) const;
  // Returns where scores and products with values lie as f32, in rows of query_block.
  llvm::Value* ScoreAt(int64_t part, llvm::Value* row, llvm::Value* query) {
    return e_.Address(Place(part, query), e_.Mul(row, score_stride_));
  }
  TileShape ScoreShape() const { return {plan_.key_rows, plan_.query_vectors}; }

  const Scratch at_;
  const PanelType factors_;
  const int size_;
  const int64_t score_stride_;  // bytes between keys
  llvm::Value* key_gradients_ = nullptr;
  llvm::Value* value_gradients_ = nullptr;
  llvm::Value* head_ = nullptr;
  llvm::Value* first_query_ = nullptr;
  llvm::Value* queries_ = nullptr;  // of this block
  llvm::Value* first_key_ = nullptr;
  llvm::Value* keys_ = nullptr;  // of this block

 private:
  void StageStatistic(Operand operand, int64_t to);
  void QueryBlock(llvm::Value* number);
  void Dots(llvm::Value* query);
  void KeyBlock(llvm::Value* key, llvm::Value* end);
  QueryPanels Panels(const Features& features) const {
    return {factors_, plan_.query_cols, features.size};
  }
  llvm::Value* Panel(int64_t panels, const Features& features, llvm::Value* query);
  Values ScoreProducts(int64_t rows, int64_t stride, int64_t panels, const Features& features,
                       const ScoreTile& tile);
  llvm::Value* MaskAddress();
  void Mask(llvm::Value* row, llvm::Value* query, Values& scores);
  void Weigh(llvm::Value* query);
  void AddToKeys(int64_t factors, int64_t rows, const Features& features, llvm::Value* sums);
  void StoreKeyGradients(Operand operand, const int64_t* strides, const Features& features,
                         llvm::Value* sums);

  std::optional<KeptWeights> kept_;
};

std::unique_ptr<Task> MakeF32Task(llvm::IRBuilder<>& builder, const TargetInfo& target,
                                  const KernelFrame& frame, const AttentionBackwardSpec& spec,
                                  const Plan& plan);
std::unique_ptr<Task> MakePairsTask(llvm::IRBuilder<>& builder, const TargetInfo& target,
                                    const KernelFrame& frame, const AttentionBackwardSpec& spec,
                                    const Plan& plan);

}  // namespace hpu::graph_compiler::attention_backward
