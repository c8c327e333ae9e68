"""Uses a stored start where Dynamo would trace a frame, or lets the trace leave a start.

Dynamo calls `convert_frame._compile` for a frame that it has decided to trace, and
`DynamoOutput.build_guards` when it has traced it. Both are wrapped, for frames of hpu_backend whose
option start_without_tracing is on. Whenever something is wrong with a start, the frame is traced as
it would be without one. The graphs of all frames of hpu_backend contain recurrent layers as whole
operators (recurrent.in_graphs).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import time
import types
from dataclasses import dataclass
from typing import Any

from ...internal.collector import without_collector
from ...torch_compat.dynamo_settings import dynamo_config
from ...torch_compat.replaced import original, replace
from ...torch_compat.tracing import (
    ConvertFrameReturn,
    TorchCompileWrapper,
    innermost_backend,
    wrap_guarded_code,
)
from ..patches import recurrent
from ..programs import deferred
from ..programs.request import Settings
from ..settings.options import OptionError
from ..settings.resolve import resolve
from . import files, graphs, journal, watch
from .describe import Describer, Refused
from .install import Candidate
from .key import Factors, frame_factors, key_of
from .loading import GraphLoader
from .trace import make_start
from .watch import Trace, traces

_COMPILE_FRAME = "torch._dynamo.convert_frame._compile"
_BUILD_GUARDS = "torch._dynamo.convert_frame.DynamoOutput.build_guards"

# A miss tells what is different in so many of the starts that have its key.
_NAMED = 3

_log = logging.getLogger("habana_frameworks.torch.dynamo")


_backend: Any = None  # hpu_backend as torch.compile finds it


@dataclass(frozen=True)
class _Call:
    """One call of Dynamo's `_compile`."""

    frame: Any
    compile_id: Any
    settings: Settings
    factors: Factors
    key: str
    closure: tuple[types.CellType, ...]


def _is_ours(compiler: Any) -> bool:
    """Whether hpu_backend compiles the trace, from torch.compile or as a function."""
    found = innermost_backend(compiler)
    return getattr(found, "compiler_fn", found) is _backend


def _settings(compiler: Any) -> tuple[Settings, str] | None:
    """The options of a frame that is for us, and what else the caller chose; None if it is not for
    us."""
    wrapper = innermost_backend(compiler)
    if not isinstance(wrapper, TorchCompileWrapper) or not _is_ours(compiler):
        return None
    if set(wrapper.kwargs) - {"options", "mode"}:
        return None
    try:
        settings = resolve(wrapper.kwargs.get("options"))
    except OptionError:
        return None  # the backend reports what is wrong
    wanted = settings.pop("start_without_tracing")
    return (settings, f"dynamic={wrapper.dynamic}") if wanted else None


def _call(arguments: dict[str, Any]) -> _Call | None:
    """The call's data; None if it is not for us. Raises Refused."""
    chosen = _settings(arguments["compiler_fn"])
    if chosen is None or arguments.get("frame") is None:
        return None
    settings, how = chosen
    hooks = arguments["hooks"]
    if hooks.guard_filter_fn or hooks.guard_export_fn or arguments["export"]:
        raise Refused("torch.compile was given hooks for guards")
    if arguments.get("package") is not None:
        raise Refused("PyTorch keeps a package of its own")
    if len(arguments["cache_entries"]) >= dynamo_config.recompile_limit:
        raise Refused("the function reached Dynamo's limit of recompilations")
    frame = arguments["frame"]
    factors = frame_factors(frame, settings, f"{how} fullgraph={arguments['one_graph']}")
    closure = arguments["closure"]
    return _Call(frame, arguments["compile_id"], settings, factors, key_of(factors), closure)


def _load(call: _Call) -> Any:
    """The code that Dynamo shall run. Raises Refused with the reason if no start fits."""
    reasons: list[str] = []
    describer = Describer()
    for content in files.read(call.key):
        try:
            candidate = Candidate(content, call.frame)
            reason = candidate.difference(describer)
        except Exception as error:  # another start may fit this frame
            _log.debug("a stored start cannot be read", exc_info=True)
            reasons.append(_text(error))
            continue
        if not reason:
            loader = GraphLoader(call.settings, str(call.compile_id or ""))
            guarded = candidate.install(call.compile_id, loader.bind)
            loader.commit()
            candidate.tell_sizes(call.frame.f_code, call.closure)
            return guarded
        reasons.append(reason)
    raise Refused(_summary(reasons) or journal.nothing_stored(call.factors))


def _summary(reasons: list[str]) -> str:
    """The reasons of the newest starts."""
    unique = list(dict.fromkeys(reasons))
    more = [f"{len(unique) - _NAMED} more"] if len(unique) > _NAMED else []
    return "; ".join(unique[:_NAMED] + more)


def _trace(call: _Call, reason: str, run: Any) -> ConvertFrameReturn:
    """Traces the frame and keeps its start."""
    trace = Trace(call.frame.f_code)
    traces.stack.append(trace)
    try:
        with graphs.collecting():
            result: ConvertFrameReturn = run()
    finally:
        traces.stack.pop()
    kept = ""
    if trace.content is not None and result.guarded_code is not None:
        try:
            files.write(call.key, trace.content)
        except files.NoFolder as error:
            kept = str(error)
    else:
        kept = trace.refused
    journal.add(journal.Outcome.of(call.frame.f_code, call.key, call.factors, reason, kept))
    return result


def _convert(arguments: dict[str, Any], run: Any) -> ConvertFrameReturn:
    started = time.perf_counter()
    try:
        call = _call(arguments)
    except Exception as error:
        journal.add(journal.Outcome.of(arguments["code"], "", [], _text(error), _text(error)))
        call = None
    if call is None:
        traces.stack.append(None)
        try:
            untouched: ConvertFrameReturn = run()
            return untouched
        finally:
            traces.stack.pop()
    warm_up = deferred.current()
    if warm_up is not None and not warm_up.launches:
        return _trace(call, "a warm-up compiles it without a launch", run)
    guarded, refusal = None, ""
    try:
        with without_collector():
            guarded = _load(call)
    except Exception as error:
        if not isinstance(error, Refused):
            _log.debug("a stored start could not be used", exc_info=True)
        refusal = _text(error)
    if guarded is None:  # outside of the handler, so that a user's error does not have that context
        return _trace(call, refusal, run)
    outcome = journal.Outcome.of(call.frame.f_code, call.key, call.factors, "", "")
    outcome.load_ms = (time.perf_counter() - started) * 1e3
    journal.add(outcome)
    return wrap_guarded_code(guarded)


def _text(error: Exception) -> str:
    if isinstance(error, (Refused, files.NoFolder)):
        return str(error)
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def _keep(output: Any, code: Any) -> None:
    """Makes the start of the innermost frame that is being traced."""
    trace = traces.innermost()
    if trace is None:
        return
    try:
        trace.content = make_start(output.tracer_output.output_graph, code, output.bytecode, trace)
    except Exception as error:
        if not isinstance(error, Refused):
            _log.debug("no start is kept", exc_info=True)
        trace.refused = _text(error)


def register(backend: Any) -> None:
    """Wraps what Dynamo calls. backend: the backend whose frames are meant. May be called again."""
    global _backend
    _backend = backend
    compile_frame = original(_COMPILE_FRAME)
    if hasattr(compile_frame, "__wrapped__"):
        return
    signature = inspect.signature(compile_frame)

    @functools.wraps(compile_frame)
    def _compile(*args: Any, **kwargs: Any) -> ConvertFrameReturn:
        arguments = signature.bind(*args, **kwargs).arguments
        kwargs["skip"] = kwargs.get("skip", 0) + 3  # hides the frames of this module in stacks
        ours = _is_ours(arguments["compiler_fn"])
        with recurrent.in_graphs() if ours else contextlib.nullcontext():
            return _convert(arguments, lambda: compile_frame(*args, **kwargs))

    build_guards = original(_BUILD_GUARDS)

    @functools.wraps(build_guards)
    def _build_guards(self: Any, code: Any, *args: Any, **kwargs: Any) -> Any:
        made = build_guards(self, code, *args, **kwargs)
        _keep(self, code)
        return made

    watch.register()
    replace(_COMPILE_FRAME, _compile)
    replace(_BUILD_GUARDS, _build_guards)
