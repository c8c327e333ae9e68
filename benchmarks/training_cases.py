"""The trained models, which end in their loss, and a batch for each. A step takes between a few
milliseconds and a few seconds on two cores."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

# Layers of a transformer at full size; SHORT makes all models short, for tests.
FULL, SHORT = 12, 2

Case = tuple[nn.Module, dict[str, torch.Tensor]]


class WithLoss(nn.Module):
    """A model whose outputs are classes of the inputs."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        out = self.model(x)
        out = getattr(out, "logits", out)
        return F.cross_entropy(out.reshape(-1, out.shape[-1]), labels.reshape(-1))


class LanguageModel(nn.Module):
    """An LSTM over words."""

    def __init__(self, words: int, size: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, size)
        self.lstm = nn.LSTM(size, size, 2, batch_first=True)
        self.head = nn.Linear(size, words)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden, _ = self.lstm(self.embed(x))
        out: torch.Tensor = self.head(hidden)
        return out


class Denoiser(nn.Module):
    """A model of images that predicts the noise that was added to them."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(self.model(x + noise), noise)


def tokens(words: int, *sizes: int) -> torch.Tensor:
    return torch.randint(words, sizes)


def bert(layers: int) -> Case:
    from transformers import BertConfig, BertForSequenceClassification

    model = BertForSequenceClassification(BertConfig(num_hidden_layers=layers))
    return model, {"input_ids": tokens(30522, 8, 128), "labels": tokens(2, 8)}


def gpt2(layers: int) -> Case:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = WithLoss(GPT2LMHeadModel(GPT2Config(n_layer=layers, use_cache=False)))
    x = tokens(50257, 2, 128)
    return model, {"x": x, "labels": x}


def mixtral(layers: int) -> Case:
    """Experts for half of the layers of the others, because they are wide."""
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=8000,
        hidden_size=512,
        intermediate_size=1024,
        num_hidden_layers=layers // 2,
        num_attention_heads=8,
        num_key_value_heads=4,
        use_cache=False,
    )
    x = tokens(8000, 2, 128)
    return WithLoss(MixtralForCausalLM(config)), {"x": x, "labels": x}


def resnet(layers: int) -> Case:
    from transformers import ResNetConfig, ResNetForImageClassification

    depths = [3, 4, 6, 3] if layers > 4 else [1, 1, 1, 1]
    model = WithLoss(ResNetForImageClassification(ResNetConfig(depths=depths, num_labels=1000)))
    return model, {"x": torch.randn(4, 3, 224, 224), "labels": tokens(1000, 4)}


def vit(layers: int) -> Case:
    from transformers import ViTConfig, ViTForImageClassification

    model = WithLoss(ViTForImageClassification(ViTConfig(num_hidden_layers=layers, num_labels=10)))
    return model, {"x": torch.randn(4, 3, 224, 224), "labels": tokens(10, 4)}


def unet(layers: int) -> Case:
    from cases import UNet

    width, size = (32, 128) if layers > 4 else (16, 32)
    x = torch.randn(4, 3, size, size)
    return Denoiser(UNet(width)), {"x": x, "noise": torch.randn_like(x)}


def lstm(_: int) -> Case:
    return WithLoss(LanguageModel(5000, 256)), {
        "x": tokens(5000, 16, 32),
        "labels": tokens(5000, 16, 32),
    }


def mlp(_: int) -> Case:
    sizes = (512, 1024, 1024, 10)
    layers: list[nn.Module] = []
    for i, o in itertools.pairwise(sizes):
        layers += [nn.Linear(i, o), nn.ReLU()]
    return WithLoss(nn.Sequential(*layers[:-1])), {
        "x": torch.randn(128, 512),
        "labels": tokens(10, 128),
    }


TRAINING_CASES: dict[str, Callable[[int], Case]] = {
    "bert-base": bert,
    "gpt2": gpt2,
    "mixtral": mixtral,
    "resnet50": resnet,
    "vit": vit,
    "unet": unet,
    "lstm": lstm,
    "mlp": mlp,
}
