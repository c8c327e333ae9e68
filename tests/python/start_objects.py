"""A program of the tests of starts that reads objects of many kinds."""

from __future__ import annotations

import collections
import dataclasses
import enum

import torch
from start_setup import Setup, on_device


@dataclasses.dataclass
class Config:
    width: int = 4
    rate: float = 0.5
    name: str = "tanh"
    stages: tuple[int, ...] = (1, 2)


class Kind(enum.Enum):
    SMALL = 1
    LARGE = 2


Point = collections.namedtuple("Point", "left right")


class Meta(type):
    def __call__(cls, *args, **kwargs):
        made = super().__call__(*args, **kwargs)
        made.bonus = 0.5
        return made


class Shift(metaclass=Meta):
    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return x + self.by

    def __eq__(self, other):
        return True

    __hash__ = None


class Rows:
    """A descriptor with a value of its own."""

    def __init__(self, value):
        self.value = value

    def __get__(self, owner, kind):
        return self.value


class Configured(torch.nn.Module):
    rows = Rows(3.0)

    def __init__(self):
        super().__init__()
        self.config = Config()
        self.kind = Kind.SMALL
        self.point = Point(1.0, 2.0)
        self.shift = Shift(0.5)
        self.table = {"a": 1.0, "b": 2.0}
        self.order = collections.OrderedDict(a=1.0, b=2.0)
        self.marks = {"x", "y"}

    def forward(self, x):
        y = torch.tanh(x) if self.config.name == "tanh" else torch.sigmoid(x)
        y = y * self.config.rate + self.config.width + len(self.config.stages)
        y = y * 2.0 if self.kind is Kind.SMALL else y * 3.0
        y = self.shift(y) * self.rows + self.point.left - self.point.right
        for key, value in self.table.items():
            y = y * value + (1.0 if key == "a" else 0.0)
        for value in self.order.values():
            y = y * 0.5 + value
        return y + (1.0 if "x" in self.marks else 0.0)


def objects():
    return Setup(Configured().eval(), (on_device(3, 4),))
