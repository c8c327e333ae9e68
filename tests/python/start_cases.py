"""Programs of the tests of starts: the code that they compile.

`python start_process.py CASE` runs one; start_differences has the changes of a second process.
"""

from __future__ import annotations

import functools
import os

import torch
import torch.nn.functional as F
from start_helper_files import helpers
from start_objects import objects
from start_setup import Setup, on_device

FACTOR = 2.0
TABLE = {"gain": 1.5, "shift": 0.25}
LADDER = [1.0, 2.0, 3.0]


# ---- a module, what it defines and what it names -------------------------------------------------


def scale(x, by=1.5, *, more=0.5):
    return x * by + more


class Base(torch.nn.Module):
    def finish(self, x):
        return x + 0.125


class Net(Base):
    gain = 3.0

    def __init__(self, width=8, slope=0.5):
        super().__init__()
        self.layer = torch.nn.Linear(4, width)
        self.drop = torch.nn.Dropout(1.0)
        self.out = torch.nn.Linear(width, width)
        self.register_buffer("offset", torch.full((width,), 0.5))
        self.slope = slope
        self.mode = "gelu"
        self.chosen = F.gelu
        self.sizes = [1.0, 2.0]

    @property
    def factor(self):
        return 1.25

    def activation(self, x):
        return F.gelu(x) * self.gain

    def forward(self, x):
        y = self.activation(self.layer(x)) * self.factor
        y = scale(self.drop(y)) * FACTOR + self.slope + self.offset
        if self.mode == "gelu":
            y = self.chosen(y)
        return self.finish(self.out(y) * self.sizes[-1])


class Broken(Net):
    def forward(self, x):
        y = self.layer(x)
        torch._dynamo.graph_break()
        return scale(self.activation(y)) * FACTOR


def net(kind=Net):
    torch.manual_seed(0)
    return Setup(kind().eval().to("hpu"), (on_device(3, 4),))


def broken():
    return net(Broken)


def train():
    setup = net()
    setup.function.train()
    setup.function.drop.eval()
    setup.train = True
    return setup


# ---- a function of globals, a closure and defaults -----------------------------------------------


class Weights:
    up = 2.0

    @staticmethod
    def mix(x):
        return x * 0.75


def names(x):
    y = scale(x) * FACTOR + TABLE["gain"] * x + TABLE["shift"]
    for rung in LADDER:
        y = y * rung
    try:
        y = y * TABLE["extra"]
    except KeyError:
        y = y + 3.0
    return Weights.mix(y) * Weights.up + sum([1.0, 2.0]) + max(0.5, 0.25)


def make_closure(power=2.0, names=("a", "b")):
    table = {"shift": 0.5}

    def inner(x, extra=1.0):
        return x * power + extra + len(names) + table["shift"]

    return inner


CLOSURE = make_closure
PARTIAL = functools.partial(scale, by=2.5)


def functions():
    return Setup(names, (on_device(3, 4),))


def closures():
    return Setup(CLOSURE(), (on_device(3, 4),))


def through_partial(x):
    return PARTIAL(x) * 2.0


def partials():
    return Setup(through_partial, (on_device(3, 4),))


# ---- names that only run time has ----------------------------------------------------------------


def by_text(x):
    import torch.nn.functional as other

    return getattr(other, "gelu")(x) + getattr(torch, "tanh")(x)  # noqa: B009


def texts():
    return Setup(by_text, (on_device(3, 4),))


# ---- what a program asks of the process ----------------------------------------------------------


def environment(x):
    if os.environ.get("START_TEST_MODE", "plain") == "plain":
        return x * 2.0
    return x * 3.0


def state(x):
    y = x * 2.0 if torch.is_grad_enabled() else x * 3.0
    if torch.is_inference_mode_enabled():
        y = y + 1.0
    if torch.get_default_dtype() == torch.float32:
        y = y + 2.0
    if torch.is_autocast_enabled("hpu"):
        y = y + 4.0
    if torch.are_deterministic_algorithms_enabled():
        y = y + 8.0
    return y


def threads(x):
    return torch.mm(x, x.t()) * 2.0


def flags(x):
    return x * 3.0 if torch.backends.cuda.flash_sdp_enabled() else x * 5.0


def rank(x):
    if torch.distributed.is_initialized():
        return x * (2.0 + torch.distributed.get_rank())
    return x * 7.0


def environments():
    return Setup(environment, (on_device(3, 4),))


def states():
    return Setup(state, (on_device(3, 4),))


def sums():
    return Setup(threads, (on_device(3, 4),))


def backends():
    return Setup(flags, (on_device(3, 4),))


def ranks():
    return Setup(rank, (on_device(3, 4),))


# ---- arguments -----------------------------------------------------------------------------------


def arguments_of(x, y, count=2, mode="sum", sizes=(1.0, 2.0), table=None, mask=None, flag=True):
    out = x * count + y
    for size in sizes:
        out = out * size
    for key, value in (table or {}).items():
        out = out * 0.5 + value + len(key)
    if mask is not None:
        out = out + mask
    out = out if flag else -out
    x.add_(1.0)
    return out + y if mode == "sum" else out * y


def arguments():
    table = {"b": 1.0, "cc": 2.0}
    return Setup(
        arguments_of, (on_device(4, 4), on_device(4, 4, seed=1)), {"table": table, "count": 3}
    )


# ---- modules that share, modules of one class ----------------------------------------------------


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4, bias=False)
        self.second = torch.nn.Linear(4, 4, bias=False)
        self.blocks = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(self.blocks(self.second(torch.tanh(self.first(x)))))


def tied():
    torch.manual_seed(0)
    return Setup(Tied().eval().to("hpu"), (on_device(3, 4),))


# ---- code that Dynamo does not look into ---------------------------------------------------------


def hidden_factor(x):
    return x * 2.0


@torch.compiler.allow_in_graph
def opaque(x):
    return hidden_factor(x)


def through_opaque(x):
    return opaque(x) + 1.0


@torch.compiler.assume_constant_result
def constant():
    return 2.0 if os.environ.get("START_TEST_CONSTANT", "") == "" else 3.0


def through_constant(x):
    return x * constant()


@torch.library.custom_op("start_tests::grow", mutates_args=())
def grow(x: torch.Tensor) -> torch.Tensor:
    return x * FACTOR


@grow.register_fake
def _(x):
    return torch.empty_like(x)


def through_op(x):
    return grow(x * 1.5) + 1.0


@torch.compiler.disable
def eager_part(x):
    return x * FACTOR


def through_eager(x):
    return eager_part(x * 1.5) + 1.0


def opaques():
    return Setup(through_opaque, (on_device(3, 4),))


def constants():
    return Setup(through_constant, (on_device(3, 4),))


def custom_ops():
    return Setup(through_op, (on_device(3, 4),))


def disabled():
    return Setup(through_eager, (on_device(3, 4),))


CASES = {
    case.__name__: case
    for case in (
        *(net, broken, train, functions, closures, partials, texts, environments),
        *(states, sums, backends, ranks, objects, arguments, tied),
        *(opaques, constants, custom_ops, disabled, helpers),
    )
}
# No start may be kept of these, because they rely on values without a guard and without a name.
REFUSED = {"constants": "constant promises a constant for this process alone"}
