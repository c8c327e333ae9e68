"""Describes what a value is, in words that mean the same in another process.

A guard of this process compares addresses; a stored start compares these texts. `value` gives the
content of constants. `identity` says which function, class or module something is: by its name and
by a digest of what it does, so that a patched function under the old name is another one.
"""

from __future__ import annotations

import collections
import contextlib
import copyreg
import enum
import functools
import hashlib
import inspect
import os
import types
from collections.abc import Iterator
from typing import Any

import torch

from ...torch_compat.dispatcher import dispatch_keys
from ...torch_compat.ops import OpOverload, OpOverloadPacket
from ..fingerprints.code_text import Uncacheable, code_lines

_PLAIN = (type(None), bool, int, complex, str, bytes, types.EllipsisType, types.NotImplementedType)
_TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep
_TORCH_CONSTANTS = (torch.dtype, torch.layout, torch.memory_format, torch.device, torch.finfo)
_SEQUENCES = (list, tuple, torch.Size, collections.deque)
_MAPPINGS = (dict, collections.OrderedDict, collections.defaultdict, types.MappingProxyType)
_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_NATIVE = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.ClassMethodDescriptorType,
    types.MethodWrapperType,
)
# Py_TPFLAGS_HEAPTYPE: classes that Python code can change.
HEAP_TYPE = 1 << 9
# Attributes of a class that Python or its metaclass made, or that are different in every process.
_CLASS_BOOKKEEPING = frozenset(
    {"__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__firstlineno__"}
    | {"__static_attributes__", "__abstractmethods__", "_abc_impl", "__parameters__"}
)

# These attributes of an enum's member hold its name, which the text has anyway, or belong to its
# class.
_MEMBER_BOOKKEEPING = frozenset({"_name_", "__objclass__", "_sort_order_", "_inverted_"})

# Attributes that Dynamo sets on functions for itself; some of them are addresses.
_DYNAMOS_OWN = ("_torchdynamo_", "_torch_dynamo_", "__torch_dynamo_")
# How deep defaults of functions are described, and up to how many items.
_DEPTH = 4
_MANY = 64

# Attributes by which users mark sizes (mark_dynamic and its like); tracing adds attributes of its
# own.
_MARKS = (
    "_dynamo_dynamic_indices",
    "_dynamo_weak_dynamic_indices",
    "_dynamo_unbacked_indices",
    "_dynamo_strict_unbacked_indices",
    "_dynamo_static_indices",
    "_dynamo_dynamic_range",
)


class Unknown(Exception):
    """A value that cannot be recognised in another process; the text says what it is."""


class Refused(Exception):
    """A trace cannot become a start, or a start cannot be used; the text says why."""


def type_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def short_digest(text: str) -> str:
    """A digest of 16 characters. These are compared inside signed content, where nobody gains by a
    collision."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def tensor_text(tensor: torch.Tensor) -> str:
    """Everything that Dynamo's guards of a tensor check, without its elements."""
    text = _tensor_text(
        type(tensor),
        tensor.dtype,
        tuple(tensor.shape),
        tensor.stride() if tensor.layout == torch.strided else tensor.layout,
        tensor.device,
        tensor.requires_grad,
        dispatch_keys(tensor).raw_repr(),
    )
    attributes = getattr(tensor, "__dict__", {})
    marks = [f"{name}={attributes[name]!r}" for name in _MARKS if name in attributes]
    return f"{text} {' '.join(marks)}" if marks else text


@functools.lru_cache(maxsize=4096)
def _tensor_text(kind: type, *others: Any) -> str:
    """Cached, because the tensors of a deep model are much the same in all its layers."""
    return f"{type_name(kind)} {' '.join(map(str, others))}"


def _is_torchs(code: types.CodeType) -> bool:
    return code.co_filename.startswith(_TORCH_FOLDER)


def _place_in_torch(code: types.CodeType) -> str:
    """The place of the code. PyTorch's version, which is in a start's key, determines the text at
    that line."""
    line = f"{code.co_filename[len(_TORCH_FOLDER) :]}:{code.co_firstlineno}"
    return f"code {code.co_qualname} {line} {hashlib.sha256(code.co_code).hexdigest()[:16]}"


class Describer:
    """Describes values of the process; a value that was described once is not read again. Not
    thread-safe."""

    def __init__(self) -> None:
        # By address. The object is kept so that its address is not reused.
        self._functions: dict[tuple[int, bool], tuple[Any, str]] = {}
        self._classes: dict[int, tuple[Any, str]] = {}
        self._codes: dict[int, tuple[Any, str]] = {}
        self._within_class = 0

    def value(self, value: Any) -> str:
        """The content of a value, to any depth. Raises Unknown."""
        kind = type(value)
        if kind is float:
            return f"float {value.hex()}"
        if kind in _PLAIN or isinstance(value, _TORCH_CONSTANTS):
            return f"{kind.__name__} {value!r}"
        if isinstance(value, torch.Tensor):
            return tensor_text(value)
        if kind in _SEQUENCES or (isinstance(value, tuple) and hasattr(kind, "_fields")):
            return f"{type_name(kind)}({', '.join([self.value(v) for v in value])})"
        if kind in (set, frozenset):
            return f"{kind.__name__}({', '.join(sorted([self.value(v) for v in value]))})"
        if kind in _MAPPINGS:
            items = [f"{self.value(k)}: {self.value(v)}" for k, v in value.items()]
            return f"{type_name(kind)}({', '.join(items)})"
        if kind in _VIEWS:
            return f"{kind.__name__}({', '.join([self.value(v) for v in value])})"
        if kind in (range, slice):
            return repr(value)
        return self.identity(value)

    def identity(self, value: Any) -> str:
        """Says which function, class, module or constant it is. Raises Unknown."""
        kind = type(value)
        if kind is types.FunctionType:
            return self._function(value)
        if isinstance(value, type):
            return self.class_text(value)
        if kind is types.ModuleType:
            return f"module {value.__name__}"
        if isinstance(value, types.ModuleType):  # torch.backends is an object of a class of its own
            return f"module {value.__name__} of {self.class_text(kind)}"
        if kind is types.MethodType:
            owner = value.__self__
            of = self._kept(owner) if self._within_class else type_name(type(owner))
            return f"method {self.identity(value.__func__)} of {of}"
        if isinstance(value, _NATIVE):
            owner = getattr(value, "__objclass__", None) or getattr(value, "__self__", None)
            named = owner if isinstance(owner, (type, types.ModuleType)) else type(owner)
            return f"{kind.__name__} {named.__name__} {value.__qualname__}"
        if isinstance(value, enum.Enum):
            return self._member(value)
        if kind in _PLAIN or isinstance(value, _TORCH_CONSTANTS) or kind is float:
            return self.value(value)
        if isinstance(value, (OpOverload, OpOverloadPacket)):
            return f"op {value}"
        if kind is types.CodeType:
            return self._code(value)
        if kind is property:
            parts = [self.loosely(f) for f in (value.fget, value.fset, value.fdel)]
            return f"property {' '.join(parts)}"
        if kind in (staticmethod, classmethod):
            return f"{kind.__name__} {self.loosely(value.__func__)}"
        if kind is functools.partial:
            parts = [self._kept(v) for v in (value.func, *value.args)]
            parts += [f"{k}={self._kept(v)}" for k, v in sorted(value.keywords.items())]
            return f"partial {' '.join(parts)}"
        if kind is functools._lru_cache_wrapper:
            return f"cached {self.identity(value.__wrapped__)}"
        if isinstance(value, torch.optim.Optimizer):
            raise Unknown(
                f"an optimizer ({kind.__name__}): Dynamo builds its parameters and its state into "
                "the graph by their addresses, and makes the state while it traces"
            )
        raise Unknown(f"an object of type {type_name(kind)}")

    def loosely(self, value: Any) -> str:
        """Like identity, but gives the type of a value that has no identity. For values that Dynamo
        guards in detail where it reads them."""
        try:
            return self.identity(value)
        except Unknown:
            return f"a {type_name(type(value))}"

    def class_text(self, kind: type) -> str:
        """The text "class name digest" of a class, which covers all that it and its bases
        define."""
        found = self._classes.get(id(kind))
        if found is not None:
            return found[1]
        self._classes[id(kind)] = (kind, f"class {type_name(kind)}")  # it may refer to itself
        self._within_class += 1
        try:
            lines = [line for base in kind.__mro__ for line in self._own_lines(base)]
        finally:
            self._within_class -= 1
        text = f"class {type_name(kind)} {short_digest(chr(10).join(lines))}"
        self._classes[id(kind)] = (kind, text)
        return text

    def _own_lines(self, kind: type) -> Iterator[str]:
        yield type_name(kind)
        if not kind.__flags__ & HEAP_TYPE:
            return
        if type(kind) is not type:
            yield f"made by {self.class_text(type(kind))}"
        if isinstance(kind, enum.EnumMeta):
            members: dict[str, enum.Enum] = dict(kind.__members__)
            yield from [f"{name} = {self._member(m)}" for name, m in members.items()]
        for name, value in sorted(vars(kind).items()):
            if name in _CLASS_BOOKKEEPING:
                continue
            if isinstance(value, type):
                yield f"{name} = class {type_name(value)}"
            elif isinstance(value, (types.FunctionType, property, staticmethod, classmethod)):
                yield f"{name} = {self.loosely(value)}"
            elif type(value) in _PLAIN or type(value) is float:
                yield f"{name} = {self.value(value)}"
            else:
                yield f"{name} = a {type_name(type(value))}"

    def _member(self, member: enum.Enum) -> str:
        """A member with its value, and what else its class gave it: two versions of a class may
        share names, and a member may be a number that code calculates with."""
        own = {n: v for n, v in vars(member).items() if n not in _MEMBER_BOOKKEEPING}
        parts = [f"{n}={self._content(v, _DEPTH)}" for n, v in sorted(own.items())]
        return f"{type_name(type(member))}.{member.name} {' '.join(parts)}"

    def _function(self, function: types.FunctionType) -> str:
        key = (id(function), self._within_class > 0)
        found = self._functions.get(key)
        if found is not None:
            return found[1]
        name = f"function {function.__module__}.{function.__qualname__}"
        self._functions[key] = (function, name)  # it may refer to itself
        lines = [self._code(function.__code__), function.__name__, repr(function.__doc__)]
        if self._within_class:
            own = sorted(function.__dict__.items())
            lines += [f"{k}: {self._kept(v)}" for k, v in own if not k.startswith(_DYNAMOS_OWN)]
        lines += [self._kept(v) for v in function.__defaults__ or ()]
        lines += [f"{k}={self._kept(v)}" for k, v in (function.__kwdefaults__ or {}).items()]
        if not _is_torchs(function.__code__):
            lines += self._annotations(function)
        for cell in function.__closure__ or ():
            try:
                lines.append(self._kept(cell.cell_contents))
            except ValueError:
                lines.append("no value yet")
        text = f"{name} {short_digest(chr(10).join(lines))}"
        self._functions[key] = (function, text)
        return text

    def _annotations(self, function: types.FunctionType) -> list[str]:
        """The annotations, described by the function that makes them where Python makes them on
        demand (3.14). Classes are described by their names: what they define changes nothing about
        the function."""
        maker = getattr(function, "__annotate__", None)
        if maker is not None:
            return [self.loosely(maker)]
        return [
            f"{k}: {type_name(v) if isinstance(v, type) else self.loosely(v)}"
            for k, v in function.__annotations__.items()
        ]

    def _kept(self, value: Any) -> str:
        """The text of a value that a function has as a default, in a cell or as an attribute.

        Dynamo guards the value where it reads it, if the function has a place of its own; it does
        not guard the value of a method, which it may reach by an object that the traced code
        made."""
        if self._within_class:
            return self._content(value, _DEPTH)
        if type(value) in (tuple, frozenset, float):
            with contextlib.suppress(Unknown):
                return self.value(value)
        return self.loosely(value)

    def _content(self, value: Any, depth: int) -> str:
        """The content to some depth, also of objects of Python classes; models and tensors are not
        content."""
        kind = type(value)
        if not depth or isinstance(value, (torch.Tensor, torch.nn.Module, type)):
            return self.loosely(value)
        if kind in _SEQUENCES or kind in (set, frozenset) or kind in _MAPPINGS:
            items = value.items() if kind in _MAPPINGS else value
            if len(items) > _MANY:
                return f"{len(items)} items in a {type_name(kind)}"
            texts = [self._content(item, depth - 1) for item in items]
            ordered = sorted(texts) if kind in (set, frozenset) else texts
            return f"{type_name(kind)}({', '.join(ordered)})"
        with contextlib.suppress(Unknown):
            return self.value(value)
        own = dict(getattr(value, "__dict__", {}))
        for name in copyreg._slotnames(kind):  # type: ignore[attr-defined]
            with contextlib.suppress(AttributeError):
                own[name] = inspect.getattr_static(value, name).__get__(value)
        fields = [f"{n}={self._content(v, depth - 1)}" for n, v in list(own.items())[:_MANY]]
        return f"{self.loosely(value)} {' '.join(fields)}"

    def _code(self, code: types.CodeType) -> str:
        found = self._codes.get(id(code))
        if found is None:
            try:
                if _is_torchs(code):
                    return self._codes.setdefault(id(code), (code, _place_in_torch(code)))[1]
                text = f"code {short_digest(chr(10).join(code_lines(code)))}"
            # not Unknown, because then its type would be taken in its place
            except Uncacheable as error:
                raise Refused(str(error)) from error
            found = self._codes[id(code)] = (code, text)
        return found[1]
