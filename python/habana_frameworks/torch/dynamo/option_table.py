"""Options of hpu_backend. Written by proto/gen_options.py from proto/options.yaml."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Option:
    """One row of the table; `effect` is "active" or why other values change nothing.

    torch_mode: function of torch; the option is also on while that says so.
    """

    name: str
    env: str
    kind: type
    default: bool | int | float | str
    key: bool
    effect: str
    text: str
    values: tuple[str, ...] = ()
    torch_mode: str = ""


OPTIONS: tuple[Option, ...] = (
    Option(
        name="use_compiled_recipes",
        env="PT_HPU_COMPILE_USE_RECIPES",
        kind=bool,
        default=True,
        key=False,
        effect="active",
        text="Compile captured graphs to recipes; off runs them eagerly.",
    ),
    Option(
        name="use_eager_fallback",
        env="PT_HPU_USE_EAGER_FALLBACK",
        kind=bool,
        default=True,
        key=False,
        effect="active",
        text="Run what no recipe can hold eagerly; off raises an error that names it.",
    ),
    Option(
        name="force_static_compile",
        env="PT_HPU_FORCE_STATIC_COMPILE",
        kind=bool,
        default=False,
        key=False,
        effect="every shape is compiled statically already",
        text="One program per concrete shape.",
    ),
    Option(
        name="keep_input_mutations",
        env="PT_HPU_KEEP_INPUT_MUTATIONS",
        kind=bool,
        default=True,
        key=False,
        effect="active",
        text="Compile graphs that write to their inputs; off runs them eagerly.",
    ),
    Option(
        name="inference",
        env="PT_HPU_USE_INFERENCE_COMPILER",
        kind=bool,
        default=True,
        key=False,
        effect="active",
        text="Compile graphs that need no gradients; off runs them eagerly.",
    ),
    Option(
        name="decomposition_mode",
        env="PT_HPU_COMPILE_DECOMPOSITION_MODE",
        kind=str,
        default="habana",
        key=False,
        effect="the compile server decomposes, by its legality table",
        text="Which decompositions run before lowering.",
        values=("habana", "core_aten", "none"),
    ),
    Option(
        name="use_graph_freezing",
        env="PT_HPU_COMPILE_GRAPH_FREEZE",
        kind=bool,
        default=False,
        key=False,
        effect="weights are inputs of a program; packed forms are cached by the device",
        text="Make parameters constants.",
    ),
    Option(
        name="discard_frozen_params",
        env="PT_HPU_COMPILE_DISCARD_FROZEN_PARAMS",
        kind=bool,
        default=False,
        key=False,
        effect="weights are inputs of a program; packed forms are cached by the device",
        text="Drop the originals of frozen parameters.",
    ),
    Option(
        name="remove_unnecessary_clones",
        env="PT_HPU_COMPILE_REMOVE_UNNECESSARY_CLONES",
        kind=bool,
        default=True,
        key=False,
        effect="memory planning removes copies",
        text="Remove clones.",
    ),
    Option(
        name="use_inplace_allreduce",
        env="PT_HPU_USE_INPLACE_COLLECTIVE",
        kind=bool,
        default=True,
        key=False,
        effect="collectives are not compiled",
        text="All-reduce in place.",
    ),
    Option(
        name="use_inplace_index_copy",
        env="PT_HPU_USE_INPLACE_INDEX_COPY",
        kind=bool,
        default=True,
        key=False,
        effect="memory planning decides what happens in place",
        text="index_copy in place.",
    ),
    Option(
        name="enable_sfg",
        env="PT_HPU_ENABLE_SFG",
        kind=bool,
        default=False,
        key=False,
        effect="collectives are not compiled",
        text="Signal collectives from inside graphs.",
    ),
    Option(
        name="use_cpp_partitioner",
        env="PT_HPU_USE_CPP_PARTITIONER",
        kind=bool,
        default=True,
        key=False,
        effect="the compile server is the only partitioner",
        text="Partition in C++.",
    ),
    Option(
        name="enable_allreduce_graph_split",
        env="PT_HPU_ENABLE_ALLREDUCE_GRAPH_SPLIT",
        kind=bool,
        default=True,
        key=False,
        effect="collectives are not compiled",
        text="Overlap gradients and all-reduce.",
    ),
    Option(
        name="reinplace_add",
        env="PT_HPU_REINPLACE_ADD",
        kind=bool,
        default=True,
        key=False,
        effect="memory planning decides what happens in place",
        text="Additions in place.",
    ),
    Option(
        name="reassign_full_copy",
        env="PT_HPU_REASSIGN_FULL_COPY",
        kind=bool,
        default=True,
        key=False,
        effect="memory planning removes copies",
        text="Write full copies in place.",
    ),
    Option(
        name="reassign_copy_",
        env="PT_HPU_REASSIGN_COPY_",
        kind=bool,
        default=True,
        key=False,
        effect="memory planning removes copies",
        text="Write copies in place.",
    ),
    Option(
        name="use_boxed_input",
        env="PT_HPU_USE_BOXED_INPUT",
        kind=bool,
        default=True,
        key=False,
        effect="inputs belong to the caller for the whole call",
        text="Free inputs early.",
    ),
    Option(
        name="compile_timeout_s",
        env="HPU_COMPILE_TIMEOUT_S",
        kind=float,
        default=600.0,
        key=False,
        effect="active",
        text="Seconds one compilation may take, then its graph runs eagerly.",
    ),
    Option(
        name="deterministic",
        env="HPU_DETERMINISTIC",
        kind=bool,
        default=False,
        key=True,
        effect="active",
        text="Convolutions by the direct form, whose rounding is that of a plain sum.",
        torch_mode="are_deterministic_algorithms_enabled",
    ),
    Option(
        name="require_server",
        env="HPU_REQUIRE_SERVER",
        kind=bool,
        default=False,
        key=False,
        effect="active",
        text="Raise an error where a graph would run eagerly for want of a compile server.",
    ),
    Option(
        name="frozen",
        env="HPU_FROZEN",
        kind=bool,
        default=False,
        key=False,
        effect="active",
        text="Raise an error that explains the miss where a graph has no stored program.",
    ),
    Option(
        name="compile_priority",
        env="HPU_COMPILE_PRIORITY",
        kind=str,
        default="interactive",
        key=False,
        effect="active",
        text="warm-up: compile after what somebody waits for.",
        values=("interactive", "warm-up"),
    ),
    Option(
        name="show_progress",
        env="HPU_SHOW_PROGRESS",
        kind=str,
        default="auto",
        key=False,
        effect="active",
        text="Progress display while recipes compile; auto: on a terminal.",
        values=("auto", "on", "off"),
    ),
    Option(
        name="start_without_tracing",
        env="HPU_START_WITHOUT_TRACING",
        kind=bool,
        default=False,
        key=False,
        effect="active",
        text="Keep what Dynamo made of a function and start the next process from it.",
    ),
)
