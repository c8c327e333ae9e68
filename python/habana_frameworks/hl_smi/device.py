"""The emulated device as its library describes it, through the C API and without torch."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path

from .processes import Process, processes

LIBRARY = Path(__file__).resolve().parents[1] / "torch" / "_native" / "libSynapse.so"
# How long a look at the use of the device takes.
_LOOK_S = 0.1
_SUCCESS = 0
_TEXT_BYTES = 256
_DEVICE_TYPES = 8
_MOST_MODULES = 65536
# By the number of the device's type: the names of the cards that Intel sells with it, and the PCI
# device id by which the bridge's tests tell the generations apart.
_CARDS = {
    2: ("HL-205", "0x1da31000", "gaudi"),
    4: ("HL-225", "0x1da31020", "gaudi2"),
    5: ("HL-325L", "0x1da31060", "gaudi3"),
}


class DeviceError(Exception):
    """The library cannot be opened, or refuses; the text says which, and what it said."""


class NotEmulated(DeviceError):
    """The library in use is Intel's, so there is a card."""


@dataclass(frozen=True)
class Module:
    index: int
    module_id: int
    bus_id: str
    name: str  # the card's
    pci_id: str
    generation: str
    driver: str
    total: int
    processes: list[Process]

    @property
    def used(self) -> int:
        return sum(process.used for process in self.processes)

    @property
    def free(self) -> int:
        return max(0, self.total - self.used)

    @property
    def utilization(self) -> int:
        return min(100, sum(process.utilization for process in self.processes))


def _open() -> ctypes.CDLL:
    path = os.environ.get("HPU_SYNAPSE_LIBRARY") or str(LIBRARY)
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise DeviceError(f"{error}: build it with ./dev build, or install the wheel") from None
    if not hasattr(library, "synEmulatorGetCapabilities"):
        raise NotEmulated(f"{path} is not the emulated device")
    return library


def _call(library: ctypes.CDLL, function: str, *arguments: object) -> None:
    status = getattr(library, function)(*arguments)
    if status != _SUCCESS:
        library.synGetLastErrorMessage.restype = ctypes.c_char_p
        message = (library.synGetLastErrorMessage() or b"").decode()
        raise DeviceError(f"{function} failed with status {status}: {message}")


def _text(library: ctypes.CDLL, function: str, *more: object) -> str:
    """The text that a function writes to a buffer."""
    buffer = ctypes.create_string_buffer(_TEXT_BYTES)
    _call(library, function, buffer, _TEXT_BYTES, *more)
    return buffer.value.decode()


def driver_version() -> str:
    """The version of the library's interface, which a card's driver would have too."""
    return _text(_open(), "synDriverGetVersion")


def _size(library: ctypes.CDLL, users: list[Process]) -> int:
    """The bytes of a device. The library says it of an acquired one only."""
    if users:
        return users[0].total
    device = ctypes.c_uint32()
    try:
        _call(library, "synDeviceAcquire", ctypes.byref(device), None)
    except DeviceError:
        # A process has acquired the last free one since the look.
        if users := processes(_LOOK_S):
            return users[0].total
        raise
    free, total = ctypes.c_uint64(), ctypes.c_uint64()
    _call(library, "synDeviceGetMemoryInfo", device, ctypes.byref(free), ctypes.byref(total))
    _call(library, "synDeviceRelease", device)
    return total.value


def _card(library: ctypes.CDLL) -> tuple[str, str, str]:
    counts = (ctypes.c_uint32 * _DEVICE_TYPES)()
    _call(library, "synDeviceCount", counts)
    return next(card for number, card in _CARDS.items() if counts[number] > 0)


def modules() -> list[Module]:
    """The modules of this host, and the processes that hold them."""
    library = _open()
    # Otherwise the library would write a profile of this process.
    os.environ.pop("HABANA_PROFILE", None)
    _call(library, "synInitialize")
    ids, count = (ctypes.c_uint32 * _MOST_MODULES)(), ctypes.c_uint32(_MOST_MODULES)
    _call(library, "synDeviceGetModuleIDs", ids, ctypes.byref(count))
    driver = driver_version()
    users = processes(_LOOK_S)
    found = ids[: count.value]
    if not found:
        raise DeviceError("HABANA_VISIBLE_MODULES or HABANA_VISIBLE_DEVICES hides every module")
    total = _size(library, users)
    card = _card(library)
    return [
        Module(
            index,
            module,
            f"{module >> 8:04x}:{module & 0xFF:02x}:00.0",
            *card,
            driver,
            total,
            [user for user in users if user.module == module],
        )
        for index, module in enumerate(found)
    ]
