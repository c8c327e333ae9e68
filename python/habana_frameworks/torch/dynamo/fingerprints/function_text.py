"""Canonical text of the functions that a Dynamo graph calls, equal in every process.

PyTorch's functions are described by their names. A Python function from other packages
(transformers replaces torch.gather on hpu) is described by its code and by everything that the code
refers to; an operator from other packages by its schema and by what is registered for it
(registrations.py). Where a function of PyTorch leads to one from elsewhere, as a patch can arrange,
that one is described too.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import hashlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch

from ...internal import registrations
from ...internal.registrations import OWN_OPS
from ...torch_compat.dispatcher import (
    CustomOpDef,
    Kernel,
    TensorBase,
    VariableFunctions,
    dispatch_get_all_op_names,
)
from ...torch_compat.ops import OpOverload, OpOverloadPacket
from .code_names import imported_by, kept_in, names_in
from .code_text import Uncacheable as Uncacheable
from .code_text import code_lines as code_lines

_NAMED_ROOTS = frozenset({"torch", "_operator", "operator", "builtins", "math"})
# Code under these roots makes no further difference to a graph, or is in its key: Python, this
# package, and the packages that PyTorch itself imports.
_KNOWN_ROOTS = (
    _NAMED_ROOTS
    | sys.stdlib_module_names
    | {"habana_frameworks", "typing_extensions", "sympy", "numpy", "optree", "triton"}
)
_PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype)
_OF_TORCH = (torch.device, torch.layout, torch.memory_format, torch.Size)
# PyTorch's classes whose state consists of Python objects that somebody registered.
_REGISTERS = ("torch._library", "torch.library")
_FUNCTIONS = (types.FunctionType, staticmethod, classmethod)
# A function's code does not show what it reaches through these functions.
_OPEN_ENDED = frozenset(
    {"eval", "exec", "compile", "__import__", "globals", "locals", "vars", "open", "input"}
)
# A patch of these parts of PyTorch changes no graph: they look for overrides, or they compile.
_PASSED_BY = ("torch.overrides", "torch._jit_internal", "torch._dynamo", "torch.fx", "torch.jit")


def function_text(target: Any) -> str:
    """The import path of a function that is found there, with a digest of what patches make it lead
    to; for any other function its name with a digest of its content."""
    if isinstance(target, (OpOverload, OpOverloadPacket)):
        name = str(target) if isinstance(target, OpOverload) else str(target._qualified_op_name)
        lines = list(_Content().operator(target))
        return f"{name}#{_digest(lines)}" if lines else name
    known = name_of(target)
    if known is not None:
        lines = list(_Content().behind(target))
        return f"{known}#{_digest(lines)}" if lines else known
    module = getattr(target, "__module__", None) or "torch"
    name = str(getattr(target, "__qualname__", None) or getattr(target, "__name__", ""))
    if not isinstance(target, types.FunctionType):
        if module.partition(".")[0] in _NAMED_ROOTS:
            raise Uncacheable(f"function {module}.{name} cannot be found again by its name")
        raise Uncacheable(f"function {module}.{name} is not PyTorch's")
    return f"{module}.{name}#{_digest(_Content().function(target))}"


def method_text(name: str) -> str:
    """Describes a method of tensors: its name, and its content where Python code gave it to all
    tensors."""
    lines = list(_Content().of_tensors((name,)))
    return f".{name}#{_digest(lines)}" if lines else f".{name}"


def registrations_text() -> str:
    """Describes what others registered for PyTorch's own operators, through which any graph may be
    captured: "none", or a digest. Raises Uncacheable."""
    unknown = registrations.unknown_for_own()
    if unknown:
        raise Uncacheable(
            f"something was registered for {unknown} before habana_frameworks.torch was imported"
        )
    content = _Content()
    lines: list[str] = []
    for place, function in registrations.kernels_for_own():
        lines += ["/".join(place), *content.reference("kernel", function)]
    for text, function in registrations.python_kernels_for_own():
        lines += [text, *content.reference("kernel", function)]
    return _digest(lines) if lines else "none"


def code_of(target: Any) -> str | None:
    """The text of a function that its name alone does not describe; None for a function whose name
    does. Raises Uncacheable."""
    text = function_text(target)
    return text if "#" in text else None


def _digest(lines: Any) -> str:
    return hashlib.sha256("\n".join(lines).encode(errors="surrogatepass")).hexdigest()


def _is_named(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _NAMED_ROOTS


def _root(function: types.FunctionType) -> str:
    """The root package of a function's code. It is found by the module in which the code looks up
    its globals: a wrapper that takes another function's name (functools.wraps) does not change
    that."""
    return str(function.__globals__.get("__name__")).partition(".")[0]


def is_foreign(function: types.FunctionType) -> bool:
    """Whether the function belongs neither to Python, nor to PyTorch, nor to this package."""
    return _root(function) not in _KNOWN_ROOTS


def name_of(target: Any) -> str | None:
    """ "module.name" of an object that PyTorch, or Python, itself has under that name."""
    if isinstance(target, types.FunctionType) and _root(target) not in _NAMED_ROOTS:
        return None
    module = getattr(target, "__module__", None) or "torch"
    if not _is_named(module):
        return None
    short = getattr(target, "__name__", "")
    owners = (
        sys.modules.get(module),
        torch,
        VariableFunctions,
        torch.Tensor,
        TensorBase,
    )
    for owner in owners:
        if owner is not None and getattr(owner, short, None) is target:
            return f"{module}.{short}"
    return None


def _is_bookkeeping(value: Any) -> bool:
    """Whether the value is an object of a class of Python or PyTorch, as PyTorch's wrappers have
    them, that cannot hold numbers for a user's calculation."""
    root = type(value).__module__.partition(".")[0]
    data = isinstance(value, (torch.Tensor, torch.nn.Module, torch.Generator))
    return not data and (root in sys.stdlib_module_names or root == "torch")


class _Content:
    """Lines that change whenever the behaviour of one function may change; nothing is described
    twice."""

    def __init__(self) -> None:
        # the objects are kept, so that no address is reused for another object
        self._seen: dict[int, Any] = {}

    def _is_new(self, value: Any) -> bool:
        if id(value) in self._seen:
            return False
        self._seen[id(value)] = value
        return True

    def function(self, function: types.FunctionType) -> Iterator[str]:
        """The text of a function that its name does not describe. Globals of PyTorch's own wrappers
        need a description only where they lead to a function from elsewhere."""
        if not self._is_new(function):
            return
        foreign = is_foreign(function)
        yield from code_lines(function.__code__)
        defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()]
        for value in defaults:
            yield from self.reference("default", value)
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            if not foreign and name in kept_in(function.__code__):
                continue
            try:
                value = cell.cell_contents
            except ValueError:
                # Names in wrappers of PyTorch have no value where no branch uses them.
                if foreign:
                    text = f"a function refers to {name}, which has no value yet"
                    raise Uncacheable(text) from None
                yield f"{name} without a value"
                continue
            yield from self.reference(name, value, strict=foreign)
        if not foreign:
            yield from self._behind_names(function)
            return
        names = names_in(function.__code__)
        for name in names:
            if name in function.__globals__:
                yield from self.reference(name, function.__globals__[name], names)
            elif hasattr(builtins, name):
                if name in _OPEN_ENDED:
                    raise Uncacheable(f"a function calls {name}")
                yield from self._behind(name, getattr(builtins, name))
            else:
                yield f"attribute {name}"
        yield from self.of_tensors(names)
        for module in imported_by(function.__code__):
            if not _is_named(module):
                raise Uncacheable(f"a function imports {module or 'from its own package'}")
            __import__(module)
            yield from self._in_module(sys.modules[module], names)

    def behind(self, target: Any) -> Iterator[str]:
        """Functions from elsewhere to which one of PyTorch's functions leads by names."""
        if isinstance(target, types.FunctionType) and self._is_new(target):
            yield from self._behind_names(target)

    def _behind_names(self, function: types.FunctionType) -> Iterator[str]:
        names = names_in(function.__code__)
        scope = function.__globals__
        for name in names:
            value = scope.get(name)
            if isinstance(value, types.ModuleType):
                if _is_named(value.__name__):
                    yield from self._in_module(value, names)
            else:
                yield from self._behind(name, value)
        yield from self.of_tensors(names)

    def _behind(self, name: str, value: Any) -> Iterator[str]:
        """value: found where PyTorch, or Python, looks a function up."""
        if not isinstance(value, types.FunctionType):
            return
        if is_foreign(value):
            yield f"{name} = patch"
            yield from self.function(value)
        elif _root(value) == "torch" and not value.__globals__["__name__"].startswith(_PASSED_BY):
            yield from self.behind(value)
        # wrapped in the way of functools and contextlib
        elif value.__closure__ and self._is_new(value):
            for cell in value.__closure__:
                with contextlib.suppress(ValueError):
                    yield from self._behind(name, cell.cell_contents)

    def _in_module(self, module: types.ModuleType, names: tuple[str, ...]) -> Iterator[str]:
        """Describes what the names lead to in a module, and in modules of it: F, then F.gelu."""
        if not self._is_new((module.__name__, names)) or id(module) in self._seen:
            return
        if module is torch.ops:
            yield from self._operators(names)
            return
        self._seen[id(module)] = module
        try:
            for name in names:
                value = vars(module).get(name)
                if isinstance(value, types.ModuleType):
                    if _is_named(value.__name__):
                        yield from self._in_module(value, names)
                else:
                    yield from self._behind(f"{module.__name__}.{name}", value)
        finally:
            del self._seen[id(module)]  # other names may be looked up in it

    def _operators(self, names: tuple[str, ...]) -> Iterator[str]:
        """Operators from elsewhere whose namespace and name are among the names."""
        wanted = frozenset(names)
        for qualified in sorted({n.partition(".")[0] for n in _operator_names()}):
            namespace, _, name = qualified.partition("::")
            if namespace not in OWN_OPS and namespace in wanted and name in wanted:
                yield from self.operator(getattr(getattr(torch.ops, namespace), name))

    def of_tensors(self, names: tuple[str, ...]) -> Iterator[str]:
        """Describes methods that Python code gave to all tensors."""
        for name in names:
            yield from self._behind(f"Tensor.{name}", vars(torch.Tensor).get(name))

    def operator(self, op: OpOverload | OpOverloadPacket) -> Iterator[str]:
        """Describes an operator; PyTorch's own give nothing, because registrations_text has what is
        registered for those."""
        if not self._is_new(op):
            return
        if isinstance(op, OpOverloadPacket):
            for overload in op.overloads():
                yield from self.operator(getattr(op, overload))
            return
        if op.namespace in OWN_OPS:
            return
        yield f"{op} {op._schema} {sorted(map(str, op.tags))}"
        try:
            for key, kernel in registrations.kernels(op):
                yield key
                if kernel is not None:
                    yield from self.reference("kernel", kernel)
        except registrations.Unseen as error:
            raise Uncacheable(str(error)) from None

    def reference(
        self, name: str, value: Any, names: tuple[str, ...] = (), strict: bool = True
    ) -> Iterator[str]:
        """The text of everything that a function refers to.

        names: the attributes that the function may read from there. strict: nothing counts as
        bookkeeping."""
        if isinstance(value, (*_PLAIN, *_OF_TORCH)):
            yield f"{name} = {value!r}"
        elif isinstance(value, (tuple, list)):
            yield f"{name} = {type(value).__name__} of {len(value)}"
            for item in value:
                yield from self.reference(name, item)
        elif isinstance(value, dict):
            yield f"{name} = dict of {len(value)}"
            for key, item in value.items():
                yield from self.reference("key", key)
                yield from self.reference(name, item)
        elif isinstance(value, types.ModuleType):
            if not _is_named(value.__name__):
                raise Uncacheable(f"a function refers to module {value.__name__}")
            yield f"{name} = module {value.__name__}"
            yield from self._in_module(value, names)
        elif isinstance(value, (OpOverload, OpOverloadPacket)):
            yield f"{name} = operator {value}"
            yield from self.operator(value)
        elif isinstance(value, CustomOpDef):
            yield f"{name} = operator {value._qualname}"
            yield from self._custom(value)
        elif isinstance(value, functools.partial):
            yield f"{name} = partial"
            yield from self.reference(name, (value.func, value.args, value.keywords))
        elif isinstance(value, (staticmethod, classmethod)):
            yield from self.reference(name, value.__func__)
        elif (named := name_of(value)) is not None:
            yield f"{name} = {named}"
            yield from self.behind(value)
        elif isinstance(value, types.FunctionType):
            yield f"{name} = function"
            yield from self.function(value)
        elif (value if isinstance(value, type) else type(value)).__module__.startswith(_REGISTERS):
            yield from self._of_torch(name, value)
        elif not strict and _is_bookkeeping(value):
            yield f"{name} is a {type(value).__name__}"
        else:
            raise Uncacheable(f"a function refers to {name}, a {type(value).__name__}")

    def _custom(self, custom: CustomOpDef) -> Iterator[str]:
        """Describes the functions that torch.library.custom_op registered, which are looked up when
        the operator runs."""
        yield from self.operator(custom._opoverload)
        if not self._is_new(custom):
            return
        for name in (
            *("_abstract_fn", "_setup_context_fn", "_backward_fn", "_vmap_fn"),
            *("_torch_dispatch_fns", "_autocast_dtype"),
        ):
            yield from self.reference(name, getattr(custom, name))

    def _of_torch(self, name: str, value: Any) -> Iterator[str]:
        """Describes an object of PyTorch, or a class that a function of PyTorch made, by what was
        put into it."""
        kind = value if isinstance(value, type) else type(value)
        yield f"{name} = {kind.__module__}.{kind.__qualname__}"
        if isinstance(value, Kernel):
            yield from self.reference(name, value.func)  # it knows its file and line, too
        elif not isinstance(value, torch.library.Library) and self._is_new(value):
            for key, item in sorted(getattr(value, "__dict__", {}).items()):
                if isinstance(item, _FUNCTIONS) or not isinstance(value, type):
                    yield from self.reference(key, item, strict=False)


def _operator_names() -> list[str]:
    names: list[str] = dispatch_get_all_op_names()
    return names
