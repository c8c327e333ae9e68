"""Training scripts that were written for lazy mode, with mark_step() after backward and step."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers as T
from lazy_case import Counts, lazy_mode, mark_step
from torch import nn
from torch.utils.checkpoint import checkpoint

TEXT: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 100,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
GPT2: dict[str, Any] = {
    "n_embd": 32, "n_layer": 1, "n_head": 2, "vocab_size": 100, "n_positions": 32,
    "bos_token_id": 1, "eos_token_id": 2, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _in_lazy_mode():
    with lazy_mode():
        yield


def ids(sizes: tuple[int, ...]) -> torch.Tensor:
    return torch.randint(3, 100, sizes, generator=torch.Generator().manual_seed(1))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, 16)
        self.layer = nn.LSTM(16, 16, batch_first=True)
        self.head = nn.Linear(16, 100)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(self.embedding(x))[0])


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = checkpoint(lambda t: self.first(t).tanh(), x, use_reentrant=False)
        return self.second(hidden)


def bert() -> tuple[nn.Module, Callable[..., Any], tuple[torch.Tensor, ...]]:
    model = T.BertForSequenceClassification(T.BertConfig(**TEXT))
    return model, lambda m, x, y: m(input_ids=x, labels=y).loss, (ids((2, 8)), torch.tensor([0, 1]))


def gpt2() -> tuple[nn.Module, Callable[..., Any], tuple[torch.Tensor, ...]]:
    model = T.GPT2LMHeadModel(T.GPT2Config(**GPT2))
    return model, lambda m, x: m(input_ids=x, labels=x).loss, (ids((2, 12)),)


def resnet() -> tuple[nn.Module, Callable[..., Any], tuple[torch.Tensor, ...]]:
    config = T.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], num_labels=3)
    model = T.ResNetForImageClassification(config)
    batch = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    loss = lambda m, x, y: m(pixel_values=x, labels=y).loss
    return model, loss, (batch, torch.tensor([0, 2]))


def lstm() -> tuple[nn.Module, Callable[..., Any], tuple[torch.Tensor, ...]]:
    loss = lambda m, x: nn.functional.cross_entropy(m(x).flatten(0, 1), x.flatten())
    return Recurrent(), loss, (ids((3, 6)),)


def checkpointed() -> tuple[nn.Module, Callable[..., Any], tuple[torch.Tensor, ...]]:
    batch = torch.linspace(-1, 1, 64).view(4, 16)
    return Checkpointed(), lambda m, x: m(x).square().mean(), (batch,)


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "AdamW": lambda p: torch.optim.AdamW(p, lr=1e-2),
    "SGD": lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9),
    "SGD foreach": lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, foreach=True),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=1e-3),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=1e-2),
}


def train(
    model: nn.Module,
    loss_of: Callable[..., Any],
    batch: tuple[torch.Tensor, ...],
    optimizer: torch.optim.Optimizer,
    steps: int,
) -> list[torch.Tensor]:
    losses = []
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, *batch)
        loss.backward()
        mark_step()
        optimizer.step()
        schedule.step()
        mark_step()
        losses.append(loss.detach())
    return losses


CASES = [
    (bert, "AdamW"), (gpt2, "AdamW"), (resnet, "SGD"), (lstm, "SGD foreach"), (lstm, "RMSprop"),
    (checkpointed, "Adagrad"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "name"), CASES, ids=[f"{make.__name__}-{name}" for make, name in CASES]
)
def test_a_training_script(make, name):
    """The parameters are those that the CPU computes. After the first step nothing compiles, but
    for SGD with momentum, whose first step is another sequence of operators."""
    torch.manual_seed(0)
    model, loss_of, batch = make()
    model.train()
    ours = copy.deepcopy(model).to("hpu")
    ours_batch = tuple(tensor.to("hpu") for tensor in batch)
    optimizers = [OPTIMIZERS[name](m.parameters()) for m in (model, ours)]
    wanted = train(model, loss_of, batch, optimizers[0], 6)
    counts = Counts()
    first = 2 if name.startswith("SGD") else 1
    got = train(ours, loss_of, ours_batch, optimizers[1], first)
    compiled = counts.compilations
    got += train_on(ours, loss_of, ours_batch, optimizers[1], 6 - first)
    assert counts.compilations == compiled
    assert counts.runs_by_call == 0
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a.cpu(), b.detach(), rtol=2e-3, atol=1e-4)
    for a, b in zip(ours.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(a.detach().cpu(), b.detach(), rtol=5e-3, atol=2e-3)


def train_on(model, loss_of, batch, optimizer, steps):
    """Goes on with the learning rate that the schedule of `train` has left."""
    for group in optimizer.param_groups:
        group.pop("initial_lr")
    return train(model, loss_of, batch, optimizer, steps)


def test_autocast():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    ours = copy.deepcopy(model).to("hpu")
    x = torch.linspace(-1, 1, 64).view(4, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(x).float().square().mean().backward()
    with torch.autocast("hpu", dtype=torch.bfloat16):
        result = ours(x.to("hpu"))
        result.float().square().mean().backward()
    mark_step()
    assert result.dtype == torch.bfloat16
    for a, b in zip(ours.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(a.grad.cpu(), b.grad, rtol=3e-2, atol=3e-3)


def test_hooks_see_values():
    x = torch.ones(3, device="hpu", requires_grad=True)
    seen = []
    y = x * 2
    y.register_hook(lambda gradient: seen.append(gradient.tolist()))
    (y * 3).sum().backward()
    assert seen == [[3.0, 3.0, 3.0]]
    assert x.grad.tolist() == [6.0, 6.0, 6.0]
