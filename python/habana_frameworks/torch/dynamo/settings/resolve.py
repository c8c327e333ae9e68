"""The options of one torch.compile call: those of config, overridden by `options={...}`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import torch

from . import config
from .option_table import OPTIONS
from .options import OptionError, parse


def resolve(options: Mapping[str, Any] | None) -> dict[str, bool | int | float | str]:
    """The values of all options: from `options`, else from config; PyTorch's modes take precedence.
    Raises OptionError, which names a wrong key or value."""
    values = {
        option.name: parse(option, getattr(config, option.name), f"config.{option.name}")
        for option in OPTIONS
    }
    by_name = {option.name: option for option in OPTIONS}
    for name, value in (options or {}).items():
        option = by_name.get(name)
        if option is None:
            near = difflib.get_close_matches(str(name), by_name, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise OptionError(
                f"hpu_backend has no option {name!r}{hint}. Options: {', '.join(sorted(by_name))}"
            )
        values[name] = parse(option, value, f"option {name}")
    for option in OPTIONS:
        if option.torch_mode and getattr(torch, option.torch_mode)():
            values[option.name] = True
    return values
