"""Answers of hpu-compile as tables for people; --json has the same data unabridged.

In tables of programs, keys are cut to the length that is enough to name one, as git does; every
command accepts the beginning of such a key. Everything else is printed whole and unbroken, however
narrow the terminal is: a digest, a public key or a path is there to be pasted where a beginning is
not accepted.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

_DIGEST = re.compile(r"[0-9a-f]{64}")
_KEY_LENGTH = 12
# The number of the graph in the process that compiled it; the text after it says more.
_GRAPH_NUMBER = re.compile(r"^graph_\d+ ")
# The columns of a terminal that has room for everything that ls knows.
_WIDE = 120
# The width of output that is not a terminal, where a search needs whole lines.
_PIPE_WIDTH = 240


def print_answer(command: str, answer: Any) -> None:
    """`answer`: the command's answer, as --json prints it."""
    if isinstance(answer, str):
        print(answer, end="")
    elif command in _PRINTERS:
        _PRINTERS[command](answer)
    elif isinstance(answer, list):
        names = list(answer[0]) if answer else []
        _table(command, names, [[cell(n, row[n]) for n in names] for row in answer])
    else:
        rows = [[re.sub("_m?s$", "", name), _whole(name, v)] for name, v in answer.items()]
        _unbroken(command, ["name", "value"], rows)


def cell(name: str, value: Any) -> str:
    """One value of a table of programs; its name determines the unit."""
    return _DIGEST.sub(lambda digest: digest[0][:_KEY_LENGTH], _whole(name, value))


def _whole(name: str, value: Any) -> str:
    """Like cell, with whole digests."""
    if name == "created":
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(value))
    if name.endswith("_ms"):
        return f"{value / 1e3:.1f} s" if value >= 1e4 else f"{value:.1f} ms"
    if name.endswith("_s"):
        return age(value)
    if name.endswith("bytes"):
        return size(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.1f}"
    return str(value)


def size(count: int) -> str:
    """Bytes in the largest unit that leaves a whole number before the point."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} B"


def age(seconds: float) -> str:
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"


def _console() -> Console:
    from rich.console import Console

    console = Console()
    if console.is_terminal or "COLUMNS" in os.environ:
        return console
    return Console(width=_PIPE_WIDTH)


def _unbroken(title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table whose cells are not broken into lines: a terminal wraps them where it has no room,
    and copies them in one piece."""
    print(title if rows else f"{title}: nothing")
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    for row in [names, *rows] if rows else []:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print(line.rstrip())


def _table(title: str, names: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    console = _console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_header=any(names))
    for name in names:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(text) for text in row))
    if title:
        console.print(Text(title if table.rows else f"{title}: nothing", style="bold"))
    if table.rows:
        console.print(table)


def _blob(blob: Sequence[Any]) -> str:
    return f"{cell('key', blob[0])}  {size(blob[1])}"


# Rows that are laid out together; the first ones are shown while the others are fetched.
_LS_ROWS = 500


def _ls(rows: Iterator[dict[str, Any]]) -> None:
    title = "stored programs, newest first"
    some = False
    while part := list(itertools.islice(rows, _LS_ROWS)):
        _ls_part("" if some else title, part)
        some = True
    if some:
        print("hits: how often the daemon handed it out since it started")
    else:
        _table(title, [], [])


def _ls_part(title: str, rows: list[dict[str, Any]]) -> None:
    def keys(known: list[str]) -> str:
        more = f" and {len(known) - 1} more" if len(known) > 1 else ""
        return cell("key", known[-1]) + more if known else "none"

    names = ["key", "program of", "age", "size", "hits", "recipes", "compiled in"]
    cells = [
        [
            cell("key", row["key"]) + (" pinned" if row["pinned"] else ""),
            _GRAPH_NUMBER.sub("", row["label"]) or "not known",
            age(row["age_s"]),
            size(row["bytes"]),
            str(row["hits"]),
            str(row["recipes"]),
            cell("compile_ms", row["compile_ms"]),
        ]
        for row in rows
    ]
    # Without the room for it, the user finds the rest with `show`.
    if _console().width >= _WIDE:
        names += ["front-end key", "for"]
        for texts, row in zip(cells, rows, strict=True):
            texts += [keys(row["front_end_keys"]), f"{row['device']} {row['isa_level']}"]
    _table(title, names, cells)


def _show(answer: dict[str, Any]) -> None:
    rows = [
        ["key", answer["key"]],
        [
            "made",
            f"{cell('created', answer['created'])}, {age(time.time() - answer['created'])} ago",
        ],
        ["compiled in", cell("compile_ms", answer["compile_ms"])],
        ["for", f"{answer['device_kind']} {answer['isa_level']}"],
        ["program", _blob(answer["program"])],
        *([f"recipe {i}", _blob(recipe)] for i, recipe in enumerate(answer["recipes"])),
        *([name, cell(name, value)] for name, value in answer["factors"]),
    ]
    _table("program", ["", ""], rows)
    _table("known as", ["front-end key", "graph"], sorted(answer["aliases"].items()))
    print(answer["text"], end="")


def _starts(answer: dict[str, Any]) -> None:
    rows = []
    for start in answer["starts"]:
        how = "traced" if start["traced"] else f"loaded in {cell('load_ms', start['load_ms'])}"
        rows.append([start["function"], how, start["reason"], start["not_kept"]])
    names = ["function", "how", "why it was traced", "why no start was kept"]
    _table(f"process {answer['process']}", names, rows)
    for start in answer["starts"]:
        if start["differences"]:
            named = ["factor", "here", "there"]
            rows = [[d["factor"], d["ours"], d["theirs"]] for d in start["differences"]]
            _table(f"{start['function']} and its nearest start", named, rows)


def _explain(answer: dict[str, Any]) -> None:
    if "starts" in answer:
        _starts(answer)
        return
    nearest = cell("key", answer["nearest"]) if answer["nearest"] else ""
    theirs = {d["factor"]: d["theirs"] for d in answer["differences"]}
    ours = {d["factor"]: d["ours"] for d in answer["differences"]}
    for kind, key, factors in (
        ("front-end key", answer["front_end_key"], answer["factors"]),
        ("content key", answer["content_key"], answer["content_factors"]),
    ):
        # The nearest key is compared only with the key of its own kind.
        compared = bool(nearest) and all(factors.get(name) == ours[name] for name in ours)
        names = ["made of", "value", *([f"in {nearest}"] if compared else [])]
        rows = []
        for name in [*factors, *(n for n in theirs if compared and n not in factors)]:
            row = [name, cell(name, factors.get(name, ""))]
            if compared:
                row.append(cell(name, theirs[name]) if name in theirs else "")
            rows.append(row)
        _table(f"{kind} {key or 'none'}  {answer['label']}", names, rows)
    if not nearest:
        print("no other key of this kind is stored")


def _doctor(answer: dict[str, Any]) -> None:
    rows = [[step["step"], step["result"], step["detail"]] for step in answer["steps"]]
    _table("the way of a program", ["step", "result", "what was found"], rows)
    for step in answer["steps"]:
        if step["cure"]:
            print(f"{step['step']}: {step['cure']}")


def _keys(answer: list[dict[str, Any]]) -> None:
    names = ["public key", "state", "name"]
    _unbroken("keys", names, [[row[name] for name in names] for row in answer])


def _verify(answer: dict[str, Any]) -> None:
    if answer["damaged"]:
        rows = [[cell("key", row["key"]), row["problem"]] for row in answer["damaged"]]
        _table("damaged programs", ["key", "what is wrong"], rows)
    print(answer.get("problem", f"{answer['programs']} programs are as their signers made them"))


_PRINTERS: dict[str, Callable[[Any], None]] = {
    "doctor": _doctor,
    "explain": _explain,
    "keys": _keys,
    "ls": _ls,
    "show": _show,
    "verify": _verify,
}
