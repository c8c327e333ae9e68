"""Names of operators that the user wants to run eagerly, as in the bridge's shared_layer.

A graph that calls one of them runs eagerly as a whole. The list is empty at first: which operators
a recipe has is the compiler's decision.
"""

from __future__ import annotations

from collections.abc import Sequence

# Names without namespace and overload, such as "randint".
names: set[str] = set()


def first(targets: Sequence[Sequence[str]]) -> str:
    """The first operator of a captured graph that is on the list; "" if there is none."""
    for target in (target for part in targets for target in part):
        if target.split(".")[1] in names:
            return target
    return ""
