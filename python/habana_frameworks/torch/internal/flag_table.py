"""The environment flags of the bridge, and variables of other software for Gaudi, that public
programs set or read, beside the options of hpu_backend (dynamo/settings/option_table.py)."""

from __future__ import annotations

from dataclasses import dataclass

# These flags change launches (docs/modules.md).
COMPILE_ONLY = "PT_COMPILE_ONLY_MODE"
SYNC_LAUNCH = "PT_HPU_SYNC_LAUNCH"
# Lazy mode records collectives (docs/distributed.md).
LAZY_COLLECTIVES = "PT_HPU_ENABLE_LAZY_COLLECTIVES"

Value = bool | int | str


@dataclass(frozen=True)
class Flag:
    """One row; `effect` is "active" or why other values change nothing.

    settable: the reference lets a program change it while it runs.
    """

    name: str
    default: Value
    effect: str
    settable: bool = False


_SHAPES = "every shape is a program of its own"
_STORE = "programs are kept in the compile server's store (HPU_CACHE_DIR)"
_DUMPS = (
    "GRAPH_VISUALIZATION=1 writes graphs to files; "
    "TORCH_LOGS=habana_frameworks.torch.dynamo lists them"
)
_COLLECTIVES = "collectives are queued by the process group and enter no graph"
_THREADS = "a call is queued by its own thread, and compile servers have workers"
_ATTENTION = "the compiler chooses the blocks of attention"
_PROGRAMS = "a process always keeps the programs that it used last"
_POOL = "the allocator takes memory as it is needed and gives it back under pressure"
_LAYERS = "the layers of transformer_engine are calls of PyTorch's operators"
_MATMUL = "the compiler chooses the form of a matrix product"
# Files with the names of operators, for lower precision and for f32 (hpu/autocast_lists.py).
AUTOCAST_LISTS = ("PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST", "PT_HPU_AUTOCAST_FP32_OPS_LIST")

FLAGS: tuple[Flag, ...] = (
    Flag("PT_HPU_LAZY_MODE", 0, "active"),
    Flag("PT_HPU_PLACE_ON_CPU", "", "active"),
    Flag("PT_HPU_ENABLE_CACHE_METRICS", False, "active"),
    Flag(COMPILE_ONLY, False, "active", settable=True),
    Flag(SYNC_LAUNCH, False, "active"),
    Flag("PT_HPU_GPU_MIGRATION", False, "active"),
    Flag(
        "PT_HPU_INFERENCE_MODE",
        False,
        "a graph that needs no gradients is compiled for inference anyway",
    ),
    Flag("PT_HPU_MATMUL3D_2D_RESHAPE", False, _MATMUL),
    Flag("PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES", False, _SHAPES, settable=True),
    Flag("PT_HPU_OPTIM_DYNAMIC_OUTPUT_SIF", True, _SHAPES),
    Flag("PT_HPU_VALIDATE_COMPUTE_SHAPE", False, _SHAPES),
    Flag("PT_ENABLE_INT64_SUPPORT", True, "int64 is always native", settable=True),
    Flag("PT_HPU_RECIPE_CACHE_CONFIG", "", _STORE),
    Flag("PT_RECIPE_CACHE_PATH", "", _STORE),
    Flag("PT_CACHE_FOLDER_DELETE", False, _STORE),
    Flag("PT_CACHE_FOLDER_SIZE_MB", 1024, _STORE),
    Flag("PT_HPU_GRAPH_DUMP_MODE", "", _DUMPS, settable=True),
    Flag("PT_HPU_GRAPH_DUMP_FORMAT", "pbtxt", _DUMPS, settable=True),
    Flag("PT_HPU_GRAPH_DUMP_PREFIX", ".graph_dumps", _DUMPS),
    Flag("PT_COMPILATION_STATS_PATH", "", "metrics are written to PT_HPU_METRICS_FILE", True),
    *(Flag(name, "", "active") for name in AUTOCAST_LISTS),
    Flag("PT_HPU_MAX_COMPOUND_OP_SIZE", 2**63 - 1, "active"),
    Flag("PT_HPU_WEIGHT_SHARING", True, "programs read the tensors of the model in place"),
    Flag(LAZY_COLLECTIVES, False, "active"),
    Flag("PT_HPU_EMULATE_DISTRIBUTED", False, _COLLECTIVES),
    Flag("PT_HPU_DISABLE_ASYNC_COLLECTIVE", False, _COLLECTIVES),
    Flag("PT_HPU_LAZY_ACC_PAR_MODE", 1, "a recording is made in the thread that calls"),
    Flag("PT_HPU_ENABLE_COMPILE_THREAD", False, _THREADS),
    Flag("PT_HPU_ENABLE_EXECUTION_THREAD", True, _THREADS),
    Flag("PT_HPU_EAGER_PIPELINE_ENABLE", True, _THREADS),
    Flag("PT_HPU_EAGER_4_STAGE_PIPELINE_ENABLE", True, _THREADS),
    Flag("PT_HPU_EAGER_COLLECTIVE_PIPELINE_ENABLE", True, _THREADS),
    Flag("PT_HPU_EAGER_ENABLE_GRADIENT_VIEW_LAYOUT_OPT", True, _COLLECTIVES),
    Flag(
        "PT_HPUGRAPH_DISABLE_TENSOR_CACHE", False, "a graph keeps no tensors between calls anyway"
    ),
    Flag("PT_HPU_SDPA_BC_FACTOR", 1024, _ATTENTION),
    Flag("PT_HPU_SDPA_QKV_SLICE_MODE_FWD", False, _ATTENTION),
    Flag("PT_HPU_PGM_ENABLE_CACHE", True, _PROGRAMS),
    Flag("PT_HPU_ENABLE_EAGER_CACHE", False, _PROGRAMS),
    Flag("PT_ENABLE_INTER_HOST_CACHING", False, "hosts share programs by HPU_COMPILE_SERVER"),
    Flag("PT_HPU_DYNAMIC_MIN_POLICY_ORDER", "4,5,3,1", _SHAPES),
    Flag("PT_HPU_DYNAMIC_MAX_POLICY_ORDER", "2,4,5,3,1", _SHAPES),
    Flag("PT_HABANA_POOL_SIZE", 24, _POOL),
    Flag("PT_HPU_POOL_STRATEGY", 4, _POOL),
    Flag("PT_HPU_INITIAL_WORKSPACE_SIZE", 0, _POOL),
    Flag("PT_ENABLE_MEMORY_DEFRAGMENTATION", True, _POOL),
    Flag("PT_HPU_ENABLE_SYNAPSE_OUTPUT_PERMUTE", True, "results have the strides of PyTorch's"),
    Flag("PT_HPU_CONVERT_FP16_TO_BF16_FOR_MIGRATION", False, "the device calculates with f16, too"),
    Flag("PT_TE_CUSTOM_OP", False, _LAYERS),
    Flag("PT_TE_LIMIT_GRAPH_SIZE", False, _LAYERS),
)

# Variables of other parts of Intel's software that programs for Gaudi set; bridge_config has no
# functions for them.
VARIABLES: tuple[Flag, ...] = (
    Flag("HABANA_VISIBLE_DEVICES", "all", "a container's runtime reads it; there is one module"),
    Flag("HABANA_VISIBLE_MODULES", "", "active"),
    Flag("EXPERIMENTAL_WEIGHT_SHARING", "1", "programs read the tensors of the model in place"),
    Flag("RUNTIME_SCALE_PATCHING", "0", "a scale that is a tensor is an input of the program"),
    Flag("GC_KERNEL_PATH", "", "active"),
    Flag("FUSER_ENABLE_MULTI_THREADED_INVOCATIONS", "", "EMULATOR_COMPILE_THREADS sets threads"),
    Flag("HABANA_PGM_LRU_MAX", "", "a process keeps the 512 programs that it used last"),
    Flag("HCCL_GAUDI_DIRECT", "0", "data between hosts goes through host memory"),
)
