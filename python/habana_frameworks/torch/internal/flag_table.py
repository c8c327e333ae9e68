"""The bridge's environment flags that public programs set or read, beside the options of
hpu_backend (dynamo/settings/option_table.py)."""

from __future__ import annotations

from dataclasses import dataclass

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
_COLLECTIVES = "there are no collectives between hpu devices"
_MATMUL = "the compiler chooses the form of a matrix product"
# Files with the names of operators, for lower precision and for f32 (hpu/autocast_lists.py).
AUTOCAST_LISTS = ("PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST", "PT_HPU_AUTOCAST_FP32_OPS_LIST")

FLAGS: tuple[Flag, ...] = (
    Flag("PT_HPU_LAZY_MODE", 0, "active"),
    Flag("PT_HPU_PLACE_ON_CPU", "", "active"),
    Flag("PT_HPU_ENABLE_CACHE_METRICS", False, "active"),
    Flag("PT_COMPILE_ONLY_MODE", False, "what is compiled is also run", settable=True),
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
    Flag("PT_HPU_ENABLE_LAZY_COLLECTIVES", False, _COLLECTIVES),
    Flag("PT_HPU_EMULATE_DISTRIBUTED", False, _COLLECTIVES),
)
