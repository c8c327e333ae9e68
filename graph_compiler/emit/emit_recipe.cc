#include "graph_compiler/emit/emit_recipe.h"

#include <algorithm>
#include <map>
#include <optional>
#include <thread>
#include <tuple>

#include "base/parallel.h"
#include "graph_compiler/codegen/loop_kernel.h"
#include "graph_compiler/codegen/module.h"
#include "graph_compiler/codegen/sort_kernel.h"
#include "graph_compiler/contraction/contraction.h"
#include "graph_compiler/contraction/tiles/transpose_copy.h"
#include "graph_compiler/emit/contraction_specs.h"
#include "graph_compiler/emit/custom_kernels.h"
#include "graph_compiler/ir/overlaps.h"
#include "graph_compiler/plan/memory_plan.h"
#include "graph_compiler/plan/schedule.h"

namespace hpu::graph_compiler {
namespace {

constexpr size_t kImageAlignment = 64;
// A task of such a kernel takes less than 1 / 128 of the time that is worth a thread.
constexpr uint64_t kGrainOfShortTasks = 128;

// There is one module per distinct kernel, so that modules compile in parallel and the bytes do not
// depend on how many do.
struct CodeUnit {
  CodeUnit(const TargetInfo& target, SizesAs sizes)
      : module(target), contractions(module), sizes_as(sizes) {}
  KernelModule module;
  ContractionEmitter contractions;
  SizesAs sizes_as;
  absl::StatusOr<KernelModule::Image> image = Internal("not compiled");
  uint32_t offset = 0;  // in Recipe::code
};

struct PlacedLaunch {
  KernelLaunch launch;
  size_t unit = 0;
  size_t kernel = 0;  // index in the schedule
};
struct PlacedPacked {
  PackedOperand packed;
  size_t unit = 0;
};

// In many short tasks it counts that the task's number is divided by constants. Code that
// calculates with places of elements is better where LLVM knows their range.
SizesAs SizesIn(const LoopKernel& loop) {
  const auto uses_places = [](const LoopPass& pass) { return UsesIota(pass.body); };
  const bool short_tasks = loop.Grain() > kGrainOfShortTasks && loop.Tasks() > loop.Grain();
  return short_tasks || std::ranges::any_of(loop.passes, uses_places) ? SizesAs::kNumbers
                                                                      : SizesAs::kSymbols;
}

// The shapes of convolutions and attention are in their code in more ways than sizes.
SizesAs SizesIn(const Node& contraction) {
  return contraction.Is<Gemm>() ? SizesAs::kSymbols : SizesAs::kNumbers;
}

class RecipeEmitter {
 public:
  RecipeEmitter(const GraphDesc& graph, LoopGraph& loops, const std::vector<FusedKernel>& kernels,
                const Prologue& prologue, const CompileOptions& options)
      : graph_(graph),
        loops_(loops),
        kernels_(kernels),
        prologue_(prologue),
        target_(TargetInfoFor(options.isa)),
        threads_(options.threads) {
    recipe_.name = graph.name;
    recipe_.device_type = graph.device_type;
    recipe_.isa = options.isa;
    recipe_.constants = std::move(loops_.constants);
    recipe_.kept_bytes = prologue_.kept_bytes;
  }

  absl::StatusOr<Recipe> Run(const Dump& dump) {
    AddTensors();
    extra_bytes_.assign(kernels_.size(), 0);
    for (size_t k = 0; k < kernels_.size(); ++k) RETURN_IF_ERROR(EmitKernel(k));
    if (dump.enabled()) {
      for (size_t u = 0; u < units_.size(); ++u) {
        dump.WriteText("code-" + std::to_string(u), units_[u]->module.ToText(), "ll");
      }
    }
    CompileUnits();
    RETURN_IF_ERROR(JoinImages());
    PlaceBuffers();
    dump.Write("recipe", recipe_);
    return std::move(recipe_);
  }

 private:
  void AddTensors() {
    tensor_index_.assign(graph_.tensors.size(), 0);
    for (uint32_t i = 0; i < graph_.tensors.size(); ++i) {
      const TensorDesc& tensor = graph_.tensors[i];
      if (tensor.placement != TensorPlacement::kPersistent) continue;
      tensor_index_[i] = static_cast<uint32_t>(recipe_.tensors.size());
      RecipeTensor entry;
      entry.name = tensor.name;
      entry.type = tensor.type;
      entry.dtype = tensor.dtype;
      entry.sizes = tensor.sizes;
      entry.permutation = tensor.permutation;
      entry.section = tensor.section;
      entry.section_offset = tensor.section_offset;
      entry.external = tensor.external;
      recipe_.tensors.push_back(std::move(entry));
    }
    std::vector<bool> written(loops_.values.size(), false);
    for (const FusedKernel& kernel : kernels_) {
      for (const ValueId value : ReadsOf(loops_, kernel)) {
        const Value& v = loops_.values[value];
        if (v.home == Home::kPersistent && !written[value]) TensorOf(v).is_input = true;
      }
      for (const ValueId value : WritesOf(loops_, kernel)) {
        const Value& v = loops_.values[value];
        written[value] = true;
        if (v.home == Home::kPersistent) TensorOf(v).is_written = true;
      }
    }
    // Inputs that no kernel reads are still inputs.
    for (RecipeTensor& tensor : recipe_.tensors) {
      if (!tensor.is_written) tensor.is_input = true;
    }
    FindStable(written);
  }

  RecipeTensor& TensorOf(const Value& value) {
    return recipe_.tensors[tensor_index_[value.tensor]];
  }

  // Finds the values whose memory no kernel of this recipe writes and which are worth packing.
  void FindStable(const std::vector<bool>& written) {
    const std::vector<std::vector<ValueId>> overlaps = FindOverlaps(loops_);
    stable_.assign(loops_.values.size(), false);
    for (ValueId v = 0; v < loops_.values.size(); ++v) {
      const Value& value = loops_.values[v];
      if (value.home == Home::kConstant) stable_[v] = true;
      if (value.home != Home::kPersistent || written[v]) continue;
      stable_[v] = std::none_of(overlaps[v].begin(), overlaps[v].end(),
                                [&](ValueId other) { return written[other]; });
    }
    if (!graph_.inference) KeepShared();
  }

  // Among the weights that change from launch to launch this keeps those that several products
  // read in the same way (a recurrence does; the two products of a forward and its backward do not,
  // because their panels differ). They are packed once for all products and are in memory as long
  // as the recipe's other weights. The others are staged one after another in the same workspace.
  void KeepShared() {
    std::vector<std::vector<View>> views(loops_.values.size());
    std::vector<bool> shared(loops_.values.size(), false);
    for (const Node& node : loops_.nodes) {
      if (!node.IsProduct()) continue;
      for (const ConstPort& port : node.Ports()) {
        const View& view = *port.view;
        std::vector<View>& seen = views[view.value];
        if (std::ranges::find(seen, view) != seen.end()) {
          shared[view.value] = true;
        } else {
          seen.push_back(view);
        }
      }
    }
    for (ValueId v = 0; v < loops_.values.size(); ++v) {
      if (loops_.values[v].home == Home::kPersistent && !shared[v]) stable_[v] = false;
    }
  }

  // Workspace values are named by number until they have a place.
  OperandRef RefOf(ValueId v) const {
    const Value& value = loops_.values[v];
    switch (value.home) {
      case Home::kPersistent:
        return {OperandRef::Kind::kPersistent, tensor_index_[value.tensor], 0};
      case Home::kConstant:
        return {OperandRef::Kind::kConstant, 0, value.byte_offset};
      case Home::kWorkspace:
        return {OperandRef::Kind::kWorkspace, v, 0};
      case Home::kKept:
        return {OperandRef::Kind::kKept, 0, value.byte_offset};
    }
    return {};
  }

  size_t UnitFor(const std::string& structure, SizesAs sizes_as, bool* is_new) {
    const auto [place, inserted] = unit_of_.emplace(structure, units_.size());
    if (inserted) units_.push_back(std::make_unique<CodeUnit>(target_, sizes_as));
    *is_new = inserted;
    return place->second;
  }

  absl::Status EmitKernel(size_t k) {
    if (kernels_[k].is_loop) return EmitLoop(k);
    const Node& node = loops_.nodes[kernels_[k].nodes[0]];
    if (node.Is<CustomCall>()) return EmitCustom(k, node);
    return node.Is<Sort>() ? EmitSort(k, node) : EmitContraction(k, node);
  }

  absl::Status EmitLoop(size_t k) {
    LoopKernel loop = kernels_[k].loop;
    if (loop.passes.empty() || loop.Tasks() == 0) return absl::OkStatus();
    const std::vector<uint64_t> offsets = TakeOffsets(loop);
    bool is_new = false;
    const std::optional<TransposeCopy> transpose = AsTransposeCopy(loop);
    const size_t unit = UnitFor("loop\n" + loop.Structure(), SizesIn(loop), &is_new);
    KernelLaunch launch;
    launch.name = loop.name;
    if (transpose.has_value()) {
      if (is_new) EmitTransposeCopy(units_[unit]->module, *transpose);
      launch.tasks = transpose->tasks();
    } else {
      if (is_new) EmitLoopKernel(units_[unit]->module, loop);
      launch.tasks = loop.Tasks();
      launch.grain = loop.Grain();
      launch.scratch_bytes = loop.ScratchBytes();
    }
    launch.flops = loop.Operations();
    for (size_t i = 0; i < loop.operands.size(); ++i) {
      launch.operands.push_back(RefOf(loop.operands[i]));
      launch.operands.back().offset += offsets[i];
      launch.bytes += loops_.values[loop.operands[i]].bytes;
    }
    const bool only_moves = std::all_of(loop.passes.begin(), loop.passes.end(), [](const auto& p) {
      return p.results.empty() &&
             std::all_of(p.body.ops.begin(), p.body.ops.end(),
                         [](const BodyOp& op) { return op.op == Opcode::kLoad; });
    });
    launch.engine = only_moves ? Engine::kDma : Engine::kTpc;
    launches_.push_back({std::move(launch), unit, k});
    return absl::OkStatus();
  }

  absl::Status EmitSort(size_t k, const Node& node) {
    const SortKernel sort = MakeSortKernel(node);
    bool is_new = false;
    const size_t unit = UnitFor("sort\n" + sort.Structure(), SizesAs::kNumbers, &is_new);
    if (is_new) EmitSortKernel(units_[unit]->module, sort);
    KernelLaunch launch;
    launch.name = node.name;
    launch.tasks = sort.Tasks();
    launch.scratch_bytes = sort.ScratchBytes();
    const auto& [in, values, indices, descending] = std::get<Sort>(node.kind);
    launch.operands = {RefOf(in.value), values.has_value() ? RefOf(values->value) : OperandRef{},
                       indices.has_value() ? RefOf(indices->value) : OperandRef{}};
    launch.bytes = loops_.values[in.value].bytes;
    launches_.push_back({std::move(launch), unit, k});
    return absl::OkStatus();
  }

  absl::Status EmitCustom(size_t k, const Node& node) {
    KernelLaunch launch = MakeCustomLaunch(node, [this](ValueId value) { return RefOf(value); });
    launch.custom = static_cast<uint32_t>(recipe_.custom_kernels.size());
    recipe_.custom_kernels.push_back(MakeCustomKernel(node));
    launches_.push_back({std::move(launch), 0, k});
    return absl::OkStatus();
  }

  absl::StatusOr<EmittedKernels> Contract(CodeUnit& unit, const Node& node, const FindHome& home) {
    if (node.Is<Gemm>()) return unit.contractions.EmitGemm(MakeGemmSpec(loops_, node, home));
    if (node.Is<QuantizedGemm>()) {
      return unit.contractions.EmitQuantizedGemm(MakeQuantizedGemmSpec(loops_, node, home));
    }
    if (node.Is<GroupedGemm>()) {
      return unit.contractions.EmitGroupedGemm(MakeGroupedGemmSpec(loops_, node, home));
    }
    if (node.Is<Conv>()) return unit.contractions.EmitConv(MakeConvSpec(loops_, node, home));
    if (node.Is<WeightGradient>()) {
      return unit.contractions.EmitWeightGradient(MakeWeightGradientSpec(node, home));
    }
    if (node.Is<AttentionBackward>()) {
      return unit.contractions.EmitAttentionBackward(MakeAttentionBackwardSpec(node, home));
    }
    return unit.contractions.EmitAttention(MakeAttentionSpec(node, home));
  }

  absl::Status EmitContraction(size_t k, const Node& node) {
    const FindHome home = [this](ValueId value) {
      return ValueHome{RefOf(value), static_cast<bool>(stable_[value])};
    };
    bool is_new = false;
    const size_t unit =
        UnitFor("mme\n" + ContractionStructure(loops_, node, home), SizesIn(node), &is_new);
    auto emitted = Contract(*units_[unit], node, home);
    if (!emitted.ok()) return Annotate(emitted.status(), "node '" + node.name + "'");
    extra_bytes_[k] = emitted->workspace_bytes;
    std::vector<uint32_t> packed_number;
    for (PackedOperand& packed : emitted->packed) {
      packed_number.push_back(AddPacked(std::move(packed), unit));
    }
    const Factors factors = FactorsOf(node);
    for (KernelLaunch& launch : emitted->launches) {
      launch.factors = factors;
      for (OperandRef& ref : launch.operands) {
        if (ref.kind == OperandRef::Kind::kPacked) ref.index = packed_number[ref.index];
      }
      launches_.push_back({std::move(launch), unit, k});
    }
    return absl::OkStatus();
  }

  uint32_t AddPacked(PackedOperand packed, size_t unit) {
    const auto [place, is_new] =
        packed_number_.emplace(std::tuple(packed.format, packed.source.kind, packed.source.index,
                                          packed.source.offset, packed.packed_bytes),
                               static_cast<uint32_t>(packed_.size()));
    if (!is_new) return place->second;
    packed_.push_back({std::move(packed), unit});
    return place->second;
  }

  void CompileUnits() {
    const size_t threads = threads_ != 0 ? threads_ : std::thread::hardware_concurrency();
    ParallelFor(units_.size(), threads, [&](size_t u) {
      units_[u]->image = units_[u]->module.Finish(units_[u]->sizes_as);
    });
  }

  absl::Status JoinImages() {
    Bytes& code = recipe_.code;
    for (const auto& unit : units_) {
      RETURN_IF_ERROR(unit->image.status());
      code.resize((code.size() + kImageAlignment - 1) / kImageAlignment * kImageAlignment, 0);
      unit->offset = static_cast<uint32_t>(code.size());
      code.insert(code.end(), unit->image->code.begin(), unit->image->code.end());
    }
    return absl::OkStatus();
  }

  uint32_t EntryOf(size_t unit, uint32_t ordinal) const {
    return units_[unit]->offset + units_[unit]->image->entry_offsets[ordinal];
  }

  void PlaceBuffers() {
    std::vector<std::vector<ValueId>> stored;
    std::vector<std::vector<ValueId>> loaded;
    for (const FusedKernel& kernel : kernels_) {
      stored.push_back(WritesOf(loops_, kernel));
      loaded.push_back(ReadsOf(loops_, kernel));
    }
    const MemoryPlan plan = PlanMemory(loops_, kernels_, stored, loaded, extra_bytes_);
    recipe_.workspace_bytes = plan.bytes;
    const auto place = [&](OperandRef& ref, size_t kernel) {
      if (ref.kind != OperandRef::Kind::kWorkspace) return;
      ref.offset +=
          ref.index == kExtraWorkspace ? plan.extra_offset[kernel] : plan.value_offset[ref.index];
      ref.index = 0;
    };
    for (PlacedLaunch& placed : launches_) {
      if (placed.launch.custom == KernelLaunch::kOwnCode) {
        placed.launch.entry = EntryOf(placed.unit, placed.launch.entry);
      }
      for (OperandRef& ref : placed.launch.operands) place(ref, placed.kernel);
      if (placed.kernel < prologue_.kernels) ++recipe_.prologue;
      recipe_.kernels.push_back(std::move(placed.launch));
    }
    for (PlacedPacked& placed : packed_) {
      placed.packed.kernel.entry = EntryOf(placed.unit, placed.packed.kernel.entry);
      if (placed.packed.restore_entry != PackedOperand::kNoEntry) {
        placed.packed.restore_entry = EntryOf(placed.unit, placed.packed.restore_entry);
      }
      recipe_.packed.push_back(std::move(placed.packed));
    }
  }

  const GraphDesc& graph_;
  LoopGraph& loops_;
  const std::vector<FusedKernel>& kernels_;
  const Prologue prologue_;
  const TargetInfo target_;
  const uint32_t threads_;
  Recipe recipe_;
  std::vector<uint32_t> tensor_index_;
  std::vector<bool> stable_;
  std::vector<std::unique_ptr<CodeUnit>> units_;
  std::map<std::string, size_t> unit_of_;
  std::vector<PlacedLaunch> launches_;
  std::vector<PlacedPacked> packed_;
  std::map<std::tuple<std::string, OperandRef::Kind, uint32_t, uint64_t, uint64_t>, uint32_t>
      packed_number_;  // by format, source and size
  std::vector<uint64_t> extra_bytes_;
};

}  // namespace

absl::StatusOr<Recipe> EmitRecipe(const GraphDesc& graph, LoopGraph& loops,
                                  const std::vector<FusedKernel>& kernels, const Prologue& prologue,
                                  const CompileOptions& options, const Dump& dump) {
  return RecipeEmitter(graph, loops, kernels, prologue, options).Run(dump);
}

}  // namespace hpu::graph_compiler
