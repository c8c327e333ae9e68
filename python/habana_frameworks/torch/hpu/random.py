"""Random numbers: one generator for the device."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from .. import native
from ..torch_compat.replaced import original, replace
from .placement import DeviceArgument, check_device

_SEED = "torch.random._seed_custom_device"


def get_rng_state(device: DeviceArgument = "hpu") -> torch.Tensor:
    """A uint8 CPU tensor of 16 bytes: the seed and the offset in its stream, little endian."""
    check_device(device)
    state: torch.Tensor = native.torch_module().get_rng_state()
    return state


def get_rng_state_all() -> list[torch.Tensor]:
    return [get_rng_state()]


def set_rng_state(new_state: torch.Tensor, device: DeviceArgument = "hpu") -> None:
    check_device(device)
    native.torch_module().set_rng_state(new_state)


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    for state in new_states:
        set_rng_state(state)


def set_rng_ctx(form: str) -> None:
    """Chooses the form of the generator's state, as DTensor does. The state always has the form
    "philox", a seed and an offset."""
    if form != "philox":
        raise ValueError(f"the generator's state has the form 'philox', not {form!r}")


def unset_rng_ctx(form: str) -> None:
    """Ends what set_rng_ctx began."""
    set_rng_ctx(form)


def manual_seed(seed: int) -> None:
    number = int(seed)
    if not -(1 << 63) <= number < 1 << 64:
        raise RuntimeError(f"seed {number} is not in the range from -2^63 to 2^64 - 1")
    native.torch_module().manual_seed(number % (1 << 64))


def manual_seed_all(seed: int) -> None:
    manual_seed(seed)


def seed() -> None:
    """Seeds the generator from the system's entropy."""
    native.torch_module().seed()


def seed_all() -> None:
    seed()


def initial_seed() -> int:
    return int(native.torch_module().initial_seed())


def default_generators() -> tuple[torch.Generator, ...]:
    """The device's generator, as a tuple of one."""
    return (native.torch_module().default_generator(),)


def join_manual_seed() -> None:
    """torch.manual_seed and torch.seed reach this device too. PyTorch seeds devices it does not
    build in through this one function, and only the one of the name "privateuseone"."""
    seed_others = original(_SEED)

    def seed_custom_devices(seed: int) -> None:
        seed_others(seed)
        if not native.torch_module().is_in_bad_fork():
            manual_seed_all(seed)

    replace(_SEED, seed_custom_devices)
