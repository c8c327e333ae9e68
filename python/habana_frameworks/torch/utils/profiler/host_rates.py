"""The rates that the CPUs behind the emulated device reach at their best, with which profiles are
compared.

They are measured once per host and kept in the cache folder's host_rates.json, by CPU,
instruction-set level and number of compute threads. Nothing else reads the file: neither keys nor
recipes depend on it.
"""

from __future__ import annotations

import functools
import json
import logging
import math
import os
import sys
import tempfile
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ... import native
from ...internal.regular_file import read_regular_file

_log = logging.getLogger("habana_frameworks.torch.utils.profiler")

_FORMAT = 1


@dataclass(frozen=True)
class HostRates:
    """Rates per second with all compute threads."""

    flops_per_second: float  # with factors in f32; a multiply-add is two
    bf16_flops_per_second: float
    bytes_per_second: float  # bytes read and written in buffers that are larger than the caches
    # Sizes in bytes; 0 if not known. The first two are those of a core.
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int

    def flops_of(self, factors: str) -> float:
        """The peak of products whose factors are "f32" or "bf16"."""
        return self.bf16_flops_per_second if factors == "bf16" else self.flops_per_second

    @staticmethod
    @functools.cache
    def known() -> HostRates | None:
        """The stored rates, or else rates that are measured (in about a second) and stored. None
        where the device is not the emulated one."""
        module = native.torch_module()
        if not module.is_emulated():
            return None
        path = rates_file()
        kept = _read(path)
        host = _host(module.isa_level())
        if host in kept:
            try:
                return _checked(kept[host])
            except (TypeError, ValueError) as error:
                _log.warning("%s: host %s: %s; measured again", path, host, error)
        rates = HostRates(*module.measure_host_peak())
        _write(path, {**kept, host: asdict(rates)})
        return rates

    @staticmethod
    def forget() -> None:
        """The next call of `known` measures again, also in other processes that start later."""
        rates_file().unlink(missing_ok=True)
        HostRates.known.cache_clear()


def rates_file() -> Path:
    return Path(native.cache_dir()) / "host_rates.json"


def _host(isa_level: str) -> str:
    model = "unknown CPU"
    try:
        with open("/proc/cpuinfo") as lines:
            line = next(line for line in lines if line.startswith("model name"))
        model = line.partition(":")[2].strip()
    except (OSError, StopIteration):
        pass
    threads = len(os.sched_getaffinity(0))
    limit = os.environ.get("HPU_EMULATOR_THREADS", "")
    if limit.isdigit() and int(limit) > 0:
        threads = min(threads, int(limit))
    return f"{model}, {isa_level}, {threads} threads"


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_regular_file(path))
        if content["format"] == _FORMAT:
            hosts: dict[str, Any] = content["hosts"]
            if not isinstance(hosts, dict):
                raise TypeError("its hosts are not an object")
            return hosts
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, TypeError) as error:
        _log.warning("%s cannot be read (%s); the host's rates are measured again", path, error)
    return {}


def _checked(row: Any) -> HostRates:
    """The stored rates of a host. Raises TypeError or ValueError if the value is no set of
    rates."""
    rates = HostRates(**row)
    for field in fields(rates):
        value = getattr(rates, field.name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"{field.name} is a {type(value).__name__}")
        least = 0 if field.name.endswith("_bytes") else sys.float_info.min
        if not least <= value < math.inf:
            raise ValueError(f"{field.name} is {value}")
    return rates


def _write(path: Path, hosts: dict[str, Any]) -> None:
    try:
        # with the same mode as the client uses
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            try:
                json.dump({"format": _FORMAT, "hosts": hosts}, file, indent=1)
                file.flush()
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError as error:
        _log.warning("the host's rates are not kept: %s", error)
