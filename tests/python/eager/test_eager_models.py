"""Models run and train eagerly on hpu with recipes alone (PT_HPU_PLACE_ON_CPU=none), and give the
CPU's results."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers as T
from eager_case import place_on_cpu
from torch import nn

from habana_frameworks.torch import native

_torch = native.torch_module()
TEXT: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
IMAGE: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "image_size": 32,
    "patch_size": 8,
}
GPT2: dict[str, Any] = {
    "n_embd": 64,
    "n_layer": 2,
    "n_head": 4,
    "vocab_size": 128,
    "n_positions": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SEQ2SEQ: dict[str, Any] = {"decoder_start_token_id": 1, "pad_token_id": 0, "eos_token_id": 2}


def ids(length: int = 16) -> torch.Tensor:
    return torch.randint(3, 100, (2, length), generator=torch.Generator().manual_seed(1))


def images(size: int = 32) -> torch.Tensor:
    return torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(1))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, 32)
        self.lstm = nn.LSTM(32, 48, 2, batch_first=True)
        self.out = nn.Linear(48, 100)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden, _ = self.lstm(self.embedding(tokens))
        return self.out(hidden)  # type: ignore[no-any-return]


class Bag(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(100, 32, mode="sum")
        self.out = nn.Linear(32, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.out(self.bag(tokens))  # type: ignore[no-any-return]


class UNet(nn.Module):
    """A diffusion U-Net in small: group norms, SiLU, attention, strided and transposed steps."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(8, width), nn.SiLU(), nn.Linear(width, width))
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.norm = nn.GroupNorm(4, width)
        self.down = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.middle = nn.GroupNorm(4, 2 * width)
        self.attention = nn.MultiheadAttention(2 * width, 4, batch_first=True)
        self.up = nn.Conv2d(2 * width, width, 3, padding=1)
        self.last = nn.Conv2d(2 * width, 3, 3, padding=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        angles = torch.arange(4, device=image.device) * 10.0
        time = self.time(torch.cat([angles.sin(), angles.cos()])[None])
        high = nn.functional.silu(self.norm(self.first(image))) + time[:, :, None, None]
        low = nn.functional.silu(self.middle(self.down(high)))
        tokens = low.flatten(2).transpose(1, 2)
        attended, _ = self.attention(tokens, tokens, tokens)
        low = low + attended.transpose(1, 2).reshape(low.shape)
        wide = self.up(nn.functional.interpolate(low, scale_factor=2.0))
        return self.last(torch.cat([high, wide], 1))  # type: ignore[no-any-return]


Model = tuple[Callable[[], nn.Module], Callable[[nn.Module, str], torch.Tensor]]
MODELS: dict[str, Model] = {
    "BERT": (
        lambda: T.BertModel(T.BertConfig(**TEXT)),
        lambda m, d: m(ids().to(d)).last_hidden_state,
    ),
    "GPT-2": (
        lambda: T.GPT2LMHeadModel(T.GPT2Config(**GPT2)),
        lambda m, d: m(ids().to(d)).logits,
    ),
    "Llama": (
        lambda: T.LlamaForCausalLM(T.LlamaConfig(**TEXT, num_key_value_heads=2)),
        lambda m, d: m(ids().to(d)).logits,
    ),
    "Mixtral": (
        lambda: T.MixtralForCausalLM(
            T.MixtralConfig(**TEXT, num_key_value_heads=2, num_local_experts=4)
        ),
        lambda m, d: m(ids().to(d)).logits,
    ),
    "ViT": (
        lambda: T.ViTModel(T.ViTConfig(**IMAGE)),
        lambda m, d: m(images().to(d)).last_hidden_state,
    ),
    "ResNet": (
        lambda: T.ResNetModel(
            T.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 32, 64], depths=[1, 1, 1, 1])
        ),
        lambda m, d: m(images(64).to(d)).pooler_output,
    ),
    "Whisper": (
        lambda: T.WhisperModel(
            T.WhisperConfig(
                d_model=64,
                encoder_layers=2,
                decoder_layers=2,
                encoder_attention_heads=4,
                decoder_attention_heads=4,
                encoder_ffn_dim=128,
                decoder_ffn_dim=128,
                vocab_size=128,
                num_mel_bins=16,
                max_source_positions=32,
                max_target_positions=32,
                bos_token_id=1,
                **SEQ2SEQ,
            )
        ),
        lambda m, d: (
            m(
                images()[:, 0, :16].repeat(1, 1, 2).to(d), decoder_input_ids=ids(8).to(d)
            ).last_hidden_state
        ),
    ),
    "T5": (
        lambda: T.T5Model(
            T.T5Config(
                d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, vocab_size=128, **SEQ2SEQ
            )
        ),
        lambda m, d: m(input_ids=ids().to(d), decoder_input_ids=ids(8).to(d)).last_hidden_state,
    ),
    "CLIP": (
        lambda: T.CLIPModel(T.CLIPConfig(text_config=TEXT, vision_config=IMAGE, projection_dim=32)),
        lambda m, d: m(input_ids=ids().to(d), pixel_values=images().to(d)).logits_per_image,
    ),
    "LSTM": (Recurrent, lambda m, d: m(ids().to(d))),
    "EmbeddingBag": (Bag, lambda m, d: m(ids().to(d))),
    "U-Net": (UNet, lambda m, d: m(images().to(d))),
}
IN_SHORT = {"BERT", "ResNet", "LSTM", "U-Net"}


def selected() -> list[Any]:
    return [
        pytest.param(name, marks=() if name in IN_SHORT else pytest.mark.slow) for name in MODELS
    ]


@pytest.fixture(autouse=True)
def only_recipes():
    _torch.reset_op_counts()
    with place_on_cpu("none"):
        yield
    assert _torch.fallback_counts() == {}
    assert sum(counts["direct"] for counts in _torch.op_counts().values()) == 0


def models(name: str) -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    model = MODELS[name][0]().eval()
    return model, copy.deepcopy(model).to("hpu")


@pytest.mark.parametrize("name", selected())
def test_inference(name: str) -> None:
    model, ours = models(name)
    with torch.no_grad():
        expected = MODELS[name][1](model, "cpu")
        torch.testing.assert_close(
            MODELS[name][1](ours, "hpu").cpu(), expected, rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("name", ["GPT-2", pytest.param("Llama", marks=pytest.mark.slow)])
def test_generation(name: str) -> None:
    model, ours = models(name)
    length: dict[str, Any] = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    tokens: Any = model.generate(ids(), **length)  # type: ignore[operator]
    found: Any = ours.generate(ids().to("hpu"), **length)  # type: ignore[operator]
    assert found.cpu().tolist() == tokens.tolist()


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.SGD])
@pytest.mark.parametrize("name", selected())
def test_training(name: str, optimizer: type[torch.optim.Optimizer]) -> None:
    """Three steps; dropout is off."""
    losses: list[list[float]] = []
    for model, device in zip(models(name), ("cpu", "hpu"), strict=True):
        for module in model.train().modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        steps = optimizer(model.parameters(), lr=1e-3)
        losses.append([])
        for _ in range(3):
            steps.zero_grad()
            loss = MODELS[name][1](model, device).float().square().mean()
            loss.backward()
            steps.step()
            losses[-1].append(loss.item())
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-3, atol=1e-5)


def test_a_loop_of_tiny_tensors() -> None:
    """Reinforcement learning in small: a policy acts, its log probabilities are trained."""
    results = []
    for device in ("cpu", "hpu"):
        torch.manual_seed(0)
        policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2)).to(device)
        steps = torch.optim.Adam(policy.parameters(), lr=0.01)
        state = torch.ones(4).to(device)
        for _ in range(10):
            logs = policy(state).log_softmax(0)
            action = int(logs.argmax().item())
            state = (state + (action - 0.5) * 0.1).clamp(-2, 2)
            loss = -logs[action] * state.sum()
            steps.zero_grad()
            loss.backward()
            steps.step()
        results.append(state.cpu())
    torch.testing.assert_close(results[1], results[0])
