"""Acts when a module from elsewhere is imported, without importing it early."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any


class _Loader(importlib.abc.Loader):
    """Runs the module's own loader, again if a repair has found out why it failed, and then the
    action."""

    def __init__(self, loader: importlib.abc.Loader, finder: _Finder) -> None:
        self._loader = loader
        self._finder = finder

    def __getattr__(self, name: str) -> Any:
        """A caller that has only looked for the module may ask its loader for more, such as its
        file."""
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        # inspect and linecache later ask the module's own loader for its source.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        try:
            self._loader.exec_module(module)
        except Exception as error:
            if not self._finder.repair(error):
                raise
            self._loader.exec_module(module)
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
            self._finder.action()


class _Finder(importlib.abc.MetaPathFinder):
    """Stays until the module has been imported, because programs also look for modules that they
    do not import then."""

    def __init__(
        self,
        name: str,
        action: Callable[[], object] = lambda: None,
        repair: Callable[[Exception], bool] = lambda error: False,
    ) -> None:
        self._name = name
        self.action = action
        self.repair = repair

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name or self not in sys.meta_path:
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self)
                return spec
        return None


def after_import(name: str, action: Callable[[], object]) -> None:
    """Calls `action` when module `name` has been imported: now, if it has been."""
    if name in sys.modules:
        action()
    else:
        sys.meta_path.insert(0, _Finder(name, action))


def repair_import(name: str, repair: Callable[[Exception], bool]) -> None:
    """Calls `repair` with the error when the import of module `name` fails. If it returns True, the
    module's code runs once more."""
    sys.meta_path.insert(0, _Finder(name, repair=repair))
