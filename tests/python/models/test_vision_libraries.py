"""Models of torchvision and timm with random weights, compiled, in inference and in training."""

from __future__ import annotations

import copy
import sys

import pytest
import torch
import torch.nn.functional as F
from helpers import compiled_whole
from paths import ROOT
from torch import nn
from training_case import compiled

sys.path.insert(0, str(ROOT / "examples"))

from models import largest_error

from habana_frameworks.torch.dynamo import report

MISSING = "torchvision or timm is not installed (docs/pytorch_versions.md)"
torchvision = pytest.importorskip("torchvision", reason=MISSING)
timm = pytest.importorskip("timm", reason=MISSING)

# The tests' images are this wide and high; the models that need it are told.
SIZE = 64
CLASSES = 10


def of_torchvision(name: str, **options):
    return torchvision.models.get_model(name, weights=None, num_classes=CLASSES, **options)


def of_timm(name: str, **options):
    return timm.create_model(name, num_classes=CLASSES, **options)


MODELS = {
    "resnet18": lambda: of_torchvision("resnet18"),
    "mobilenet_v3_small": lambda: of_torchvision("mobilenet_v3_small", dropout=0.0),
    "shufflenet_v2_x0_5": lambda: of_torchvision("shufflenet_v2_x0_5"),
    "squeezenet1_1": lambda: of_torchvision("squeezenet1_1", dropout=0.0),
    "swin_t": lambda: of_torchvision("swin_t"),
    "lraspp_mobilenet_v3_large": lambda: of_torchvision(
        "lraspp_mobilenet_v3_large", weights_backbone=None
    ),
    "vit_tiny_patch16_224": lambda: of_timm("vit_tiny_patch16_224", img_size=SIZE),
    "convnext_atto": lambda: of_timm("convnext_atto"),
    "efficientnet_b0": lambda: of_timm("efficientnet_b0"),
    "mobilevit_xxs": lambda: of_timm("mobilevit_xxs"),
    "mixer_s32_224": lambda: of_timm("mixer_s32_224", img_size=SIZE),
}
TRAINED = ["resnet18", "mobilenet_v3_small", "vit_tiny_patch16_224"]
# These are shares of the output's range, and of the largest gradient of a parameter, against f64.
OUTPUTS, GRADIENTS = 1e-4, 1e-3


def images(seed: int) -> torch.Tensor:
    return torch.randn(2, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(seed))


def model_of(name: str) -> nn.Module:
    """A model whose norms know the statistics of some images. Without these, activations vanish or
    grow from layer to layer, and the outputs say little about them."""
    torch.manual_seed(0)
    model = MODELS[name]()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None
    with torch.no_grad():
        model(images(1))
    return model.eval()


def outputs_of(result) -> list[torch.Tensor]:
    return list(result.values()) if isinstance(result, dict) else [result]


@pytest.mark.parametrize("name", MODELS)
def test_inference(name):
    model, x = model_of(name), images(2)
    with torch.inference_mode():
        exact = outputs_of(copy.deepcopy(model).double()(x.double()))
        own = outputs_of(model(x))
        got = outputs_of(compiled(model.to("hpu"))(x.to("hpu")))
    assert largest_error(got, exact) <= max(OUTPUTS, 2 * largest_error(own, exact))
    assert len(report().graphs) == 1
    compiled_whole(report())


def step(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x), torch.tensor([1, 7], device=x.device))


@pytest.mark.parametrize("name", TRAINED)
def test_training(name):
    model, x = model_of(name).train(), images(2)
    exact = copy.deepcopy(model).double()
    wanted = step(exact, x.double())
    wanted.backward()
    loss = compiled(step)(model.to("hpu"), x.to("hpu"))
    loss.backward()
    torch.testing.assert_close(loss.detach().cpu().double(), wanted.detach(), rtol=1e-4, atol=1e-4)
    largest = max(float(parameter.grad.abs().max()) for parameter in exact.parameters())
    for mine, other in zip(model.parameters(), exact.parameters(), strict=True):
        assert float((mine.grad.cpu().double() - other.grad).abs().max()) <= GRADIENTS * largest
    for mine, other in zip(model.buffers(), exact.buffers(), strict=True):
        torch.testing.assert_close(mine.cpu().double(), other.double(), rtol=1e-3, atol=1e-4)
    compiled_whole(report())
