"""Models of many kinds in f32, against CPU eager: losses and every gradient, whole in at most three
programs. Activations are smooth: at a kink, rounding may carry a value to the other side, which
changes a gradient by more than rounding."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from helpers import fresh_process
from torch import nn
from torch.nn.utils.parametrizations import weight_norm
from training_case import matrix
from transformers import (
    SwinConfig,
    SwinForImageClassification,
    T5Config,
    T5ForConditionalGeneration,
)

from habana_frameworks.torch.dynamo import report


def numbers(*sizes: int, below: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(below, sizes, generator=torch.Generator().manual_seed(seed))


class Autoencoder(nn.Module):
    """A variational autoencoder with strided and transposed convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            *(nn.Conv2d(1, 8, 3, 2, 1), nn.SiLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.SiLU()),
            nn.Flatten(),
            nn.Linear(256, 12),
        )
        self.up = nn.Linear(6, 256)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.ELU(), nn.ConvTranspose2d(8, 1, 4, 2, 1)
        )

    def forward(self, x, noise):
        mean, logarithm = self.encoder(x).chunk(2, 1)
        hidden = self.up(mean + noise * (logarithm / 2).exp()).view(-1, 16, 4, 4)
        wrong = F.binary_cross_entropy_with_logits(self.decoder(hidden), x.sigmoid())
        return wrong - (1 + logarithm - mean**2 - logarithm.exp()).mean()


class DenselyConnected(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 1, 1)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(n), nn.SiLU(), nn.Conv2d(n, 4, 3, 1, 1))
            for n in (8, 12, 16)
        )
        self.head = nn.Linear(20, 5)

    def forward(self, x, labels):
        x = self.stem(x)
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return F.cross_entropy(self.head(F.avg_pool2d(x, 2).mean((2, 3))), labels)


class DilatedConvolutions(nn.Module):
    """Gated and causal, with skip connections and weight norm, as in WaveNet."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32, 16)
        self.gates = nn.ModuleList(
            weight_norm(nn.Conv1d(16, 32, 2, dilation=2**i)) for i in range(3)
        )
        self.mixes = nn.ModuleList(nn.Conv1d(16, 32, 1) for _ in range(3))
        self.head = nn.Conv1d(16, 32, 1)

    def forward(self, text):
        x = self.embedding(text[:, :-1]).transpose(1, 2)
        skipped = torch.zeros_like(x)
        for i, (gate, mix) in enumerate(zip(self.gates, self.mixes, strict=True)):
            a, b = gate(F.pad(x, (2**i, 0))).chunk(2, 1)
            a, b = mix(a.tanh() * b.sigmoid()).chunk(2, 1)
            x, skipped = x + a, skipped + b
        return F.cross_entropy(self.head(skipped.tanh()), text[:, 1:])


class Speech(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(8, 12, 3, 2, 1)
        self.recurrent = nn.LSTM(12, 12, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(24, 6)

    def forward(self, sound, text, sound_lengths, text_lengths):
        x = self.convolution(sound).tanh().transpose(1, 2)
        scores = self.head(self.recurrent(x)[0]).log_softmax(-1).transpose(0, 1)
        return F.ctc_loss(scores, text, sound_lengths, text_lengths)


class Values(nn.Module):
    """Q-learning with a frozen copy for the targets."""

    def __init__(self) -> None:
        super().__init__()
        self.values = nn.Sequential(nn.Linear(4, 32), nn.SiLU(), nn.Linear(32, 3))
        self.target = copy.deepcopy(self.values).requires_grad_(False)

    def forward(self, state, action, reward, following):
        given = self.values(state).gather(1, action[:, None])[:, 0]
        with torch.no_grad():
            wanted = reward + 0.9 * self.target(following).max(1).values
        return F.smooth_l1_loss(given, wanted)


class SelectiveState(nn.Module):
    """A state space whose steps depend on the input, as in Mamba's block."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 32)
        self.convolution = nn.Conv1d(16, 16, 4, groups=16, padding=3)
        self.selection = nn.Linear(16, 9)
        self.step = nn.Linear(1, 16)
        self.decay = nn.Parameter(torch.arange(1, 5.0).log().repeat(16, 1))
        self.outer = nn.Linear(16, 8)

    def forward(self, x, wanted):
        u, gate = self.inner(x).chunk(2, -1)
        u = F.silu(self.convolution(u.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
        step, write, read = self.selection(u).split([1, 4, 4], -1)
        step = F.softplus(self.step(step))
        state, seen = torch.zeros(len(x), 16, 4, device=x.device), []
        for t in range(x.shape[1]):
            kept = (-step[:, t, :, None] * self.decay.exp()).exp()
            state = kept * state + (step[:, t] * u[:, t])[..., None] * write[:, t, None]
            seen.append((state * read[:, t, None]).sum(-1))
        return F.mse_loss(self.outer(torch.stack(seen, 1) * F.silu(gate)), wanted)


class GraphAttention(nn.Module):
    """Sums, maxima and means over the edges of a graph."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.score = nn.Linear(16, 1)
        self.second = nn.Linear(24, 3)

    def forward(self, x, edges, labels):
        source, target = edges
        x = self.first(x)
        score = F.elu(self.score(torch.cat([x[source], x[target]], 1))[:, 0])
        peak = torch.full_like(x[:, 0], -1e9).scatter_reduce(0, target, score.detach(), "amax")
        weight = (score - peak[target]).exp()
        total = torch.zeros_like(x[:, 0]).index_add(0, target, weight)
        given = x[source] * (weight / total[target])[:, None]
        summed = torch.zeros_like(x).index_add(0, target, given)
        places = target[:, None].expand(-1, 8)
        pooled = (
            torch.zeros_like(x).scatter_reduce(0, places, given, how, include_self=False)
            for how in ("mean", "amax")
        )
        return F.cross_entropy(self.second(torch.cat([summed, *pooled], 1).tanh()), labels)


def t5():
    config = T5Config(
        vocab_size=60,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        dropout_rate=0.0,
        feed_forward_proj="gated-gelu",
        decoder_start_token_id=0,
    )
    text = numbers(2, 10, below=60)
    return T5ForConditionalGeneration(config), {"input_ids": text, "labels": text.flip(1)}


def swin():
    config = SwinConfig(
        image_size=32,
        patch_size=4,
        embed_dim=16,
        depths=[1, 2],
        num_heads=[2, 4],
        window_size=4,
        num_labels=3,
        drop_path_rate=0.0,
    )
    inputs = {"pixel_values": matrix(2, 3, 32, 32), "labels": torch.tensor([0, 2])}
    return SwinForImageClassification(config), inputs


MODELS = {
    "autoencoder": lambda: (Autoencoder(), {"x": matrix(4, 1, 16, 16), "noise": matrix(4, 6)}),
    "densely connected": lambda: (
        DenselyConnected(),
        {"x": matrix(4, 3, 8, 8), "labels": torch.tensor([0, 1, 2, 4])},
    ),
    "dilated convolutions": lambda: (DilatedConvolutions(), {"text": numbers(2, 24, below=32)}),
    "speech": lambda: (
        Speech(),
        {
            "sound": matrix(2, 8, 24),
            "text": numbers(2, 4, below=5) + 1,
            "sound_lengths": torch.tensor([12, 10]),
            "text_lengths": torch.tensor([4, 3]),
        },
    ),
    "values": lambda: (
        Values(),
        {
            "state": matrix(16, 4),
            "action": numbers(16, below=3),
            "reward": matrix(16, seed=1),
            "following": matrix(16, 4, seed=2),
        },
    ),
    "selective state": lambda: (
        SelectiveState(),
        {"x": matrix(2, 6, 8), "wanted": matrix(2, 6, 8, seed=1)},
    ),
    "graph attention": lambda: (
        GraphAttention(),
        {
            "x": matrix(10, 6),
            "edges": numbers(2, 40, below=10),
            "labels": torch.arange(10) % 3,
        },
    ),
    "t5": t5,
    "swin": swin,
}


def placed(inputs: dict[str, torch.Tensor], device: str) -> dict[str, torch.Tensor]:
    return {name: value.to(device) for name, value in inputs.items()}


@pytest.mark.parametrize("steps", [3, pytest.param(50, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MODELS)
def test_steps(name, steps):
    """Each step begins with the CPU's weights, so that differences of single steps do not add
    up."""
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    model.train()
    device_model = copy.deepcopy(model).to("hpu")
    fresh_process()
    run = torch.compile(device_model, backend="hpu_backend")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    device_inputs = placed(inputs, "hpu")
    for step in range(steps):
        ours, theirs = run(**device_inputs), model(**inputs)
        ours, theirs = (getattr(result, "loss", result) for result in (ours, theirs))
        ours.backward()
        theirs.backward()
        assert abs(ours.item() - theirs.item()) <= 1e-5 * max(1.0, abs(theirs.item())), step
        pairs = list(zip(device_model.named_parameters(), model.parameters(), strict=True))
        largest = max(q.grad.abs().max().item() for _, q in pairs if q.grad is not None)
        for (parameter, mine), other in pairs:
            assert (mine.grad is None) == (other.grad is None), parameter
            if mine.grad is None:
                continue
            difference = (mine.grad.cpu() - other.grad).abs().max().item()
            assert difference <= 2e-5 * largest, (step, parameter, difference, largest)
        optimizer.step()
        optimizer.zero_grad()
        device_model.zero_grad()
        with torch.no_grad():
            for (_, mine), other in pairs:
                mine.copy_(other)
    assert [graph.reason for graph in report().graphs] == [""] * len(report().graphs)
    assert report().eager_segments == 0, report().eager_reasons
    assert len(report().graphs) <= 3
