"""The forms in which hl-smi prints: versions, a table, a log, CSV.

Programs parse these by position and by regular expression, so places of words matter:
tests/python/hl_smi/test_hl_smi.py lists who reads what.
"""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Callable, Sequence

from .device import Module, driver_version

_MIB = 1 << 20
_NOTHING = "N/A"
_EMULATED = "This device is emulated on the CPUs of this host (hpu_backend)"
_NO_FIRMWARE = "fw-0.0.0"

_RULE = f"+{'-' * 77}+"
_COLUMNS = f"|{'-' * 31}+{'-' * 22}+{'-' * 22}+"

# Fields that an emulated device has no value of.
_ABSENT = (
    "serial",
    "ecc.errors.uncorrected.aggregate.total",
    "ecc.errors.uncorrected.volatile.total",
    "ecc.errors.corrected.aggregate.total",
    "ecc.errors.corrected.volatile.total",
    "ecc.errors.dram.aggregate.total",
    "ecc.errors.dram-corrected.aggregate.total",
    "ecc.errors.dram.volatile.total",
    "ecc.errors.dram-corrected.volatile.total",
    "ecc.mode.current",
    "ecc.mode.pending",
    "stats.violation.power",
    "stats.violation.thermal",
    "clocks.current.soc",
    "clocks.max.soc",
    "clocks.limit.soc",
    "clocks.limit.tpc",
)


def _now() -> str:
    return time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime())


def _release() -> str:
    """The release of Intel's software that the Python modules follow."""
    return importlib.metadata.version("habana-torch-plugin")


def _driver(module: Module) -> str:
    return f"{module.driver}-emulated"


# Field -> its unit and its value.
FIELDS: dict[str, tuple[str, Callable[[Module], str]]] = {
    "timestamp": ("", lambda module: _now()),
    "index": ("", lambda module: str(module.index)),
    "name": ("", lambda module: module.name),
    "bus_id": ("", lambda module: module.bus_id),
    "driver_version": ("", _driver),
    "module_id": ("", lambda module: str(module.module_id)),
    "uuid": ("", lambda module: f"emulated-{module.generation}-{module.module_id}"),
    "utilization.aip": ("%", lambda module: str(module.utilization)),
    "memory.total": ("MiB", lambda module: str(module.total // _MIB)),
    "memory.free": ("MiB", lambda module: str(module.free // _MIB)),
    "memory.used": ("MiB", lambda module: str(module.used // _MIB)),
    "temperature.aip": ("C", lambda module: _NOTHING),
    "power.draw": ("W", lambda module: _NOTHING),
    **dict.fromkeys(_ABSENT, ("", lambda module: _NOTHING)),
}


def version() -> str:
    return (
        f"Habanalabs hl-smi version hl-{_release()}-{_NO_FIRMWARE}\n"
        f"Driver version {driver_version()}-emulated\n{_EMULATED}; this is not Intel's hl-smi"
    )


def query(modules: Sequence[Module], fields: Sequence[str], header: bool, units: bool) -> str:
    """CSV with a row for each module."""

    def value(module: Module, field: str) -> str:
        unit, text = FIELDS[field][0], FIELDS[field][1](module)
        return f"{text} {unit}" if unit and units and text != _NOTHING else text

    lines = [", ".join(value(module, field) for field in fields) for module in modules]
    if header:
        named = (f"{f} [{FIELDS[f][0]}]" if FIELDS[f][0] else f for f in fields)
        lines.insert(0, ", ".join(named))
    return "\n".join(lines)


def _row(*cells: tuple[str, int]) -> str:
    return "|" + "|".join(f"{text:<{width}}"[:width] for text, width in cells) + "|"


def _module_rows(module: Module) -> list[str]:
    memory = f"{module.used // _MIB}MiB / {module.total // _MIB}MiB"
    return [
        _row(
            (f"{module.index:>4}  {module.name:<19} {_NOTHING}", 31),
            (f" {module.bus_id:<16} {_NOTHING}", 22),
            (f"{_NOTHING:>20}", 22),
        ),
        _row(
            (f" {_NOTHING}   {_NOTHING}   {_NOTHING}    {_NOTHING} / {_NOTHING}", 31),
            (f"{memory:>21}", 22),
            (f"{module.utilization:>6}%{_NOTHING:>13}", 22),
        ),
        _COLUMNS,
    ]


def summary(modules: Sequence[Module]) -> str:
    """The table of all modules and of the processes that use them."""
    driver = _driver(modules[0]) if modules else _NOTHING
    lines = [
        _RULE,
        _row((f" {'HL-SMI Version:':<45}hl-{_release()}-{_NO_FIRMWARE}", 77)),
        _row((f" {'Driver Version:':<45}{driver}", 77)),
        _row((f" {_EMULATED}", 77)),
        _COLUMNS,
        _row((" AIP  Name        Persistence-M", 31), (" Bus-Id        Disp.A", 22), (" ECC", 22)),
        _row(
            (" Fan  Temp  Perf  Pwr:Usage/Cap", 31),
            ("         Memory-Usage", 22),
            (" AIP-Util  Compute M.", 22),
        ),
        _COLUMNS.replace("-", "="),
        *(row for module in modules for row in _module_rows(module)),
        _row((" Compute Processes:                                     AIP Memory", 77)),
        _row(("  AIP       PID  Process name                           Usage", 77)),
        f"|{'=' * 77}|",
    ]
    users = [(module.index, user) for module in modules for user in module.processes]
    for index, user in users:
        text = f"{index:>5}{user.pid:>10}  {user.name:<38} {user.used // _MIB}MiB"
        lines.append(_row((text, 77)))
    if not users:
        lines.append(_row((f"{_NOTHING:>5}{_NOTHING:>10}  {_NOTHING:<38} {_NOTHING}", 77)))
    return "\n".join([*lines, _RULE])


def _line(depth: int, name: str, value: str) -> str:
    return "\t" * depth + f"{name:<{32 - 8 * depth}}: {value}"


def _sections(module: Module) -> dict[str, list[str]]:
    """Lines by the name that -d has for them."""
    domain, bus, rest = module.bus_id.split(":")
    slot = rest.partition(".")[0]
    firmware = f"emulated, hl-{module.generation}-{_release()}-{_NO_FIRMWARE}"
    none = {
        "POWER": "Power Draw",
        "CLOCK": "Clocks",
        "TEMPERATURE": "Temperature",
        "FAN": "Fan Speed",
        "NET": "Network Information",
    }
    return {
        "PRODUCT": [
            _line(1, "Product Name", module.name),
            _line(1, "Module status", "Emulated"),
            _line(1, "Module ID", str(module.module_id)),
            _line(1, "AIP UUID", FIELDS["uuid"][1](module)),
            _line(1, "Firmware [SPI] Version", f"Preboot version {firmware}"),
            _line(1, "Firmware [OS] Version", f"None: {firmware}"),
        ],
        "BUS": [
            "\tPCI",
            _line(2, "Bus", f"0x{bus}"),
            _line(2, "Device", f"0x{slot}"),
            _line(2, "Domain", f"0x{domain}"),
            _line(2, "Device Id", module.pci_id),
            _line(2, "Bus Id", module.bus_id),
        ],
        "MEMORY": [
            "\tMemory Usage",
            _line(2, "Total", f"{module.total // _MIB} MB"),
            _line(2, "Used", f"{module.used // _MIB} MB"),
            _line(2, "Free", f"{module.free // _MIB} MB"),
        ],
        **{key: [_line(1, name, _NOTHING)] for key, name in none.items()},
    }


def log(modules: Sequence[Module], display: str | None = None) -> str:
    """All that is known of each module, or the part with the name `display`."""
    lines = [
        "================ HL-SMI LOG ================",
        "",
        _line(0, "Timestamp", _now()),
        _line(0, "Driver Version", _driver(modules[0]) if modules else _NOTHING),
        _line(0, "HL-SMI Version", f"hl-{_release()}-{_NO_FIRMWARE}"),
        _line(0, "Note", _EMULATED),
        "",
        _line(0, "Attached AIPs", str(len(modules))),
    ]
    for module in modules:
        lines += ["", f"[{module.index}] AIP (emulated) {module.bus_id}"]
        for name, section in _sections(module).items():
            if display in (None, name):
                lines += section
    return "\n".join(lines)
