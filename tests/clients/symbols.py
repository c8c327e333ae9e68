"""Counts which names of habana_frameworks that public programs use exist here, by importing them,
and which names of the C++ interface for custom operators, by looking into its headers.

    ./dev python tests/clients/symbols.py            # a table
    ./dev python tests/clients/symbols.py --json
    ./dev python tests/clients/symbols.py --missing  # each missing name with its users
    ./dev python tests/clients/symbols.py --update   # rewrites missing_symbols.txt for the test

symbol_uses.json says who uses what how often (count_uses.py made it). The media modules
(habana_frameworks.mediapipe) are counted apart, because few programs use them often. The bridge's
own repository is another row that no sum contains: it uses the names that it defines.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

USES = Path(__file__).resolve().parent / "symbol_uses.json"
MISSING = USES.with_name("missing_symbols.txt")
BRIDGE = "HabanaAI/gaudi-pytorch-bridge"
_CPP_MACROS = frozenset({"HPU_PARAMS_STUB", "REGISTER_CUSTOM_OP_ATTRIBUTES"})
_MEDIA = ("habana_frameworks.mediapipe", "habana_frameworks.medialoaders")


@dataclass(frozen=True)
class Share:
    """How many uses, and how many names, exist."""

    uses: int
    found_uses: int
    names: int
    found_names: int

    @property
    def percent(self) -> float:
        return 100 * self.found_uses / self.uses if self.uses else 100.0


def is_cpp(name: str) -> bool:
    return "::" in name or name in _CPP_MACROS


def is_media(name: str) -> bool:
    return name.startswith(_MEDIA)


@functools.cache
def _cpp_words() -> frozenset[str]:
    lib_utils = importlib.import_module("habana_frameworks.torch.utils.lib_utils")
    headers = Path(lib_utils.get_include_dir()).glob("hpu_custom_op*.h")
    return frozenset(re.findall(r"\w+", " ".join(h.read_text(encoding="utf-8") for h in headers)))


def exists(name: str) -> bool:
    """Whether a dotted name leads somewhere, through attributes and submodules. A class may hide a
    submodule of its name, which `from ... import` still finds. A name of C++ exists if the headers
    have all its parts."""
    if is_cpp(name):
        return set(name.split("::")) <= _cpp_words()
    first, *rest = name.split(".")
    found: Any = importlib.import_module(first)
    so_far = first
    for part in rest:
        hidden = sys.modules.get(so_far)
        so_far += f".{part}"
        for owner in (found, hidden):
            if hasattr(owner, part):
                found = getattr(owner, part)
                break
        else:
            try:
                found = importlib.import_module(so_far)
            except ImportError:
                return False
    return True


def uses_by_program() -> dict[str, Counter[str]]:
    programs = json.loads(USES.read_text(encoding="utf-8"))
    return {name: Counter(program["uses"]) for name, program in programs.items()}


def missing_names(names: Iterable[str]) -> set[str]:
    # `torch.ops` and `torch.hpu` are reached through torch, with the package imported.
    importlib.import_module("habana_frameworks.torch")
    return {name for name in names if not exists(name)}


def share(uses: Counter[str], missing: set[str]) -> Share:
    found = {name: count for name, count in uses.items() if name not in missing}
    return Share(uses.total(), sum(found.values()), len(uses), len(found))


def result() -> tuple[dict[str, Share], dict[str, dict[str, int]]]:
    """The share of each program and of all of them, and each missing name with its users. "all"
    leaves out media modules and the bridge."""
    programs = uses_by_program()
    missing = missing_names({name for uses in programs.values() for name in uses})
    total: Counter[str] = Counter()
    media: Counter[str] = Counter()
    shares = {}
    for program, uses in programs.items():
        plain = Counter({name: n for name, n in uses.items() if not is_media(name)})
        shares[program] = share(plain, missing)
        if program != BRIDGE:
            total += plain
            media += uses - plain
    shares["media modules"] = share(media, missing)
    shares["all"] = share(total, missing)
    users = {
        name: {p: uses[name] for p, uses in programs.items() if p != BRIDGE and uses[name]}
        for name in sorted(missing)
    }
    return shares, {name: found for name, found in users.items() if found}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="the shares and the missing names")
    parser.add_argument("--missing", action="store_true", help="the missing names alone")
    parser.add_argument("--update", action="store_true", help=f"rewrites {MISSING.name}")
    arguments = parser.parse_args()
    shares, missing = result()
    if arguments.update:
        MISSING.write_text("".join(f"{name}\n" for name in missing), encoding="utf-8")
    elif arguments.json:
        table = {name: {**vars(s), "percent": round(s.percent, 1)} for name, s in shares.items()}
        json.dump({"programs": table, "missing": missing}, sys.stdout, indent=1)
        print()
    elif arguments.missing:
        for name, users in sorted(missing.items(), key=lambda item: -sum(item[1].values())):
            listed = ", ".join(f"{program} {count}" for program, count in users.items())
            print(f"{sum(users.values()):4}  {name}  ({listed})")
    else:
        print(f"{'uses found':>17} {'%':>6} {'names found':>13}  program")
        for name, s in shares.items():
            found = f"{s.found_uses} of {s.uses}"
            names = f"{s.found_names} of {s.names}"
            print(f"{found:>17} {s.percent:6.1f} {names:>13}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
