"""A program of the tests of starts that calls helpers on disk, which a test can edit."""

from __future__ import annotations

import sys
import tempfile
import textwrap
from pathlib import Path

from start_setup import Setup, on_device

HELPERS = {
    "__init__.py": '__version__ = "1.0"\n',
    "outer.py": """
        from . import inner
        from .inner import Half, STEP

        def run(x):
            return inner.twice(x) + Half()(x) * STEP + inner.cached(2)
    """,
    "inner.py": """
        import functools

        STEP = 4.0

        def twice(x):
            return x * 2.0

        @functools.lru_cache
        def cached(n):
            return n + 1.0

        class Half:
            part = 0.5

            def __call__(self, x):
                return x * self.part
    """,
}


def write_helpers(file="", old="", new=""):
    """A package start_helpers of this process, with one text replaced."""
    folder = Path(tempfile.mkdtemp(prefix="start-helpers-"))
    (folder / "start_helpers").mkdir()
    for name, content in HELPERS.items():
        text = textwrap.dedent(content)
        if name == file:
            assert old in text
            text = text.replace(old, new)
        (folder / "start_helpers" / name).write_text(text)
    sys.path.insert(0, str(folder))


def helpers():
    if "start_helpers" not in sys.modules and not any("start-helpers-" in p for p in sys.path):
        write_helpers()
    import start_helpers.outer

    return Setup(start_helpers.outer.run, (on_device(3, 4),))
