"""The cures of an eager segment or a recompilation: sentences that are chosen by the reason's
text."""

from __future__ import annotations

import re

_EAGER = (
    (
        r"higher-order operation",
        "Call functions of functions (torch.cond, while_loop), and activation checkpoints with "
        "random numbers in them, outside of what is compiled.",
    ),
    (r"no input is on hpu", 'Move the model and its inputs to the device: .to("hpu").'),
    (r"inputs on ", "Give the graph inputs on hpu or the CPU only."),
    (r"option (\w+) is off", r"Switch option \1 on (docs/options.md)."),
    (
        r"no compile server|server stopped|did not answer",
        "hpu-compile status names what is wrong; docs/operations.md says what to do.",
    ),
    (
        r"compile_timeout_s|DEADLINE",
        "Give it more time: option compile_timeout_s (HPU_COMPILE_TIMEOUT_S).",
    ),
    (
        r"forked",
        "Start workers with the spawn method, or use the backend in them only.",
    ),
    (r"0-d tensor", "Pass numbers that change as 0-d tensors on hpu."),
    (r"no memory", "Free device memory, or take a smaller batch."),
    (
        r"forward-mode differentiation",
        "A program computes no tangents. Compile the function that calls torch.func.jvp or jacfwd "
        "as a whole: its tangents are part of the graph then.",
    ),
    (
        r"another grad mode",
        "Switch gradients by a context (with torch.no_grad(), torch.enable_grad(), "
        "torch.set_grad_enabled(...)), not by a call.",
    ),
    (
        r"leaves inference mode",
        "Move torch.inference_mode(False) out of the compiled function, around its call.",
    ),
    (r"share memory", "Pass inputs that do not overlap: clone the one that is not written."),
    (
        r"no rule for this operator|no Synapse node",
        "No recipe holds this operator. Use one of docs/ops.md in its place, or move it out of the "
        "hot path; the graph around it stays compiled.",
    ),
    (
        r"the device has no (\w+)",
        r"Convert \1 to a type that the device has (f32, bf16, i32, ...) before this operator.",
    ),
    (r"view of an eager result", "It follows from the eager operator before it: cure that one."),
    (r"data.dependent", "Its result's shape depends on values: compute it outside the graph."),
)
_EAGER_DEFAULT = "docs/ops.md lists what becomes a recipe; hpu-compile show KEY prints the program."

_RECOMPILE = (
    (
        r"size mismatch|stride mismatch|rank mismatch|\.size\(|shape",
        "Each shape is a program of its own: pad inputs to a few sizes, or call "
        "torch.compile(dynamic=True) so that Dynamo does not trace again for each.",
    ),
    (r"dtype mismatch", "Convert inputs to one dtype before the call."),
    (
        r"requires_grad|grad_mode|GLOBAL_STATE",
        "Keep gradient and autocast modes alike.",
    ),
    (
        r"___check_type_id|___check_obj_id|is not|ID_MATCH",
        "The function depends on which object it gets: pass the same one, or make it an argument "
        "that is a tensor.",
    ),
    (
        r"==|float|int",
        "A Python number is part of the compiled code: pass a 0-d tensor, or keep it the same.",
    ),
)
_RECOMPILE_DEFAULT = "Keep what the guard checks the same between calls."


# Breaks for which Dynamo keeps only a name of its own: title, explanation, cure.
_BREAKS = (
    (
        r"generic_jump TensorVariable",
        "Data-dependent branching",
        "The branch depends on a tensor's value, which is not known while Dynamo traces.",
        "Compute both sides and choose with torch.where, or use torch.cond.",
    ),
    (
        r"generic_jump",
        "A branch that Dynamo cannot follow",
        "The condition is an object whose truth Dynamo does not know.",
        "Branch on Python values that do not come from a tensor.",
    ),
    (
        r"step_unsupported",
        "Code that Dynamo cannot trace",
        "The line has no form that Dynamo knows how to split or to trace.",
        "Move it out of the compiled function.",
    ),
)


def for_break(title: str) -> tuple[str, str, str] | None:
    """Title, explanation and cure of a break that Dynamo does not explain itself."""
    for pattern, *told in _BREAKS:
        if re.search(pattern, title):
            return (told[0], told[1], told[2])
    return None


def for_eager(reason: str) -> str:
    return _first(_EAGER, reason) or _EAGER_DEFAULT


def for_recompile(guard: str) -> str:
    return _first(_RECOMPILE, guard) or _RECOMPILE_DEFAULT


def _first(table: tuple[tuple[str, str], ...], text: str) -> str:
    for pattern, cure in table:
        found = re.search(pattern, text, re.IGNORECASE)
        if found:
            return found.expand(cure)
    return ""
