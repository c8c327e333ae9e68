"""Ways to damage stored values: each gets a value, another of its class, and random numbers."""

from __future__ import annotations

import random
from collections.abc import Callable

Damage = Callable[[bytes, bytes, random.Random], bytes]


def flip_a_bit(value: bytes, other: bytes, numbers: random.Random) -> bytes:
    position = numbers.randrange(len(value))
    bit = bytes([value[position] ^ (1 << numbers.randrange(8))])
    return value[:position] + bit + value[position + 1 :]


def cut_off(value: bytes, other: bytes, numbers: random.Random) -> bytes:
    return value[: numbers.randrange(len(value))]


def replay(value: bytes, other: bytes, numbers: random.Random) -> bytes:
    """Whole and signed, but the value of another program."""
    return other


def splice(value: bytes, other: bytes, numbers: random.Random) -> bytes:
    middle = numbers.randrange(1, len(value) // 2)
    return value[:middle] + other[middle:]


def overwrite(value: bytes, other: bytes, numbers: random.Random) -> bytes:
    return numbers.randbytes(len(value))


def append(value: bytes, other: bytes, numbers: random.Random) -> bytes:
    return value + numbers.randbytes(1 + numbers.randrange(16))


DAMAGES: list[Damage] = [flip_a_bit, cut_off, replay, splice, overwrite, append]
