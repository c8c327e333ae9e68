"""Functions, and transforms of torch.func, for the sweep of test_function_transforms.py.

A function takes a tensor of 3 x 4 elements (INPUTS has the inputs of the others). A transform turns
it into a function of the same tensor whose results a sweep compares.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    vjp,
    vmap,
)

Function = Callable[[torch.Tensor], Any]
Transform = Callable[[Function], Function]


def numbers(*sizes: int, seed: int = 0, low: float = -1.5, high: float = 1.5) -> torch.Tensor:
    """Different numbers, so that maxima and orders are differentiable."""
    count = int(torch.Size(sizes).numel())
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    return (torch.linspace(low, high, count)[order] + 0.01).reshape(sizes)


MATRIX = numbers(4, 4, seed=11)
ROW = numbers(4, seed=12)
MASK = torch.tensor([True, False, True, True])
INDEX = torch.tensor([2, 0, 3])


def _on(constant: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return constant.to(x.device)


def _written_inside(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y.mul_(3)
    y[..., 1:] += 1
    return y * x


def _switched(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        scale = x.abs() + 1
    return x * scale


FUNCTIONS: dict[str, Function] = {
    "sin": torch.sin,
    "exp": lambda x: x.exp() * x,
    "tanh": lambda x: x.tanh() * x.sigmoid(),
    "sqrt": lambda x: (x * x + 1).sqrt(),
    "log": lambda x: (x * x + 0.5).log(),
    "power": lambda x: (x * x + 1) ** 1.5,
    "relu": lambda x: F.relu(x) ** 2,
    "gelu": F.gelu,
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "softplus": F.softplus,
    "elu": F.elu,
    "leaky relu": lambda x: F.leaky_relu(x, 0.1) * x,
    "hardswish": F.hardswish,
    "mish": F.mish,
    "clamp": lambda x: x.clamp(-1, 1) * x,
    "erf": torch.erf,
    "atan2": lambda x: torch.atan2(x, x.cos() + 2),
    "division": lambda x: x / (x * x + 1),
    "maximum": lambda x: torch.maximum(x, x.cos()),
    "where": lambda x: torch.where(x > 0, x * x, x.exp()),
    "lerp": lambda x: torch.lerp(x, x.sin(), 0.3),
    "sum": lambda x: x.sum(-1) ** 2,
    "mean": lambda x: (x * x).mean(-1),
    "variance": lambda x: x.var(-1),
    "norm": lambda x: x.norm(dim=-1),
    "vector norm": lambda x: torch.linalg.vector_norm(x, 3, dim=-1),
    "maximum over": lambda x: x.amax(-1) * x.sum(-1),
    "max with place": lambda x: x.max(-1).values ** 2,
    "product over": lambda x: x.prod(-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "cumsum": lambda x: x.cumsum(-1) ** 2,
    "cummax": lambda x: x.cummax(-1).values ** 2,
    "cummin": lambda x: x.cummin(-1).values * x,
    "softmax": lambda x: x.softmax(-1) * x,
    "log softmax": lambda x: x.log_softmax(-1)[..., 0] * x[..., 1],
    "matrix product": lambda x: (x @ _on(MATRIX, x)).sin(),
    "matrix product with itself": lambda x: x[..., None, :] * x[..., :, None] @ _on(ROW, x),
    "einsum": lambda x: torch.einsum("...i,ij,...j->...", x, _on(MATRIX, x), x),
    "linear": lambda x: F.linear(x, _on(MATRIX, x), _on(ROW, x)).tanh(),
    "outer": lambda x: (x.unsqueeze(-1) * x.unsqueeze(-2)).sum(-1),
    "layer norm": lambda x: F.layer_norm(x, (4,), _on(ROW, x)),
    "rms norm": lambda x: F.rms_norm(x, (4,)),
    "normalize": lambda x: F.normalize(x, dim=-1),
    "cosine": lambda x: F.cosine_similarity(x, _on(ROW, x), dim=-1),
    "cross entropy": lambda x: F.cross_entropy(x, x.new_full(x.shape[:-1], 1).long()),
    "mse": lambda x: F.mse_loss(x, x.detach() * 0.5 + 1),
    "smooth l1": lambda x: F.smooth_l1_loss(x, x.new_zeros(x.shape)),
    "bce": lambda x: F.binary_cross_entropy_with_logits(x, x.new_ones(x.shape)),
    "transpose": lambda x: x.unsqueeze(0).transpose(0, -1).sin() * 2,
    "reshape": lambda x: x.reshape(-1).flip(0) ** 2,
    "slice": lambda x: x[..., ::2].sin() * x[..., 1::2],
    "concatenation": lambda x: torch.cat([x, x * x], -1).sin(),
    "stack": lambda x: torch.stack([x, x.cos()], -1).prod(-1),
    "split": lambda x: torch.chunk(x.sin(), 2, -1)[1] ** 2,
    "roll": lambda x: torch.roll(x, 1, -1) * x,
    "expand": lambda x: (x.unsqueeze(-2).expand(*x.shape[:-1], 3, 4) ** 2).sum(-1),
    "gather": lambda x: x.gather(-1, x.argsort(-1)) * x,
    "index select": lambda x: x.index_select(-1, _on(INDEX, x)) ** 2,
    "advanced index": lambda x: x[..., _on(INDEX, x)] ** 3,
    "masked fill": lambda x: x.masked_fill(~_on(MASK, x), 0.5) ** 2,
    "sort": lambda x: x.sort(-1).values * x,
    "topk": lambda x: x.topk(2, -1).values ** 2,
    "pad": lambda x: F.pad(x, (1, 2)) ** 2,
    "triangle": lambda x: (x.unsqueeze(-1) * x.unsqueeze(-2)).tril().sum(-1),
    "scatter add": lambda x: torch.zeros_like(x).scatter_add(-1, x.argsort(-1), x * x),
    "embedding": lambda x: F.embedding(_on(INDEX, x), _on(MATRIX, x)).sum(0) * x,
    "attention": lambda x: F.scaled_dot_product_attention(
        x.expand(1, 1, 2, 4), x.sin().expand(1, 1, 2, 4), _on(MATRIX, x)[None, None, :2]
    ),
    "written inside": _written_inside,
    "detached factor": lambda x: x.detach() * x,
    "gradients switched off inside": _switched,
    "constant": lambda x: (x.new_ones(4) * 2) @ x.unsqueeze(-1),
}

# The sweep takes other inputs for these: images, sequences, square matrices.
INPUTS: dict[str, torch.Tensor] = {
    "convolution": numbers(2, 3, 5, 5, seed=3),
    "convolution 1d": numbers(2, 3, 6, seed=4),
    "average pooling": numbers(2, 2, 4, 4, seed=5),
    "maximum pooling": numbers(2, 2, 4, 4, seed=6),
    "adaptive pooling": numbers(2, 2, 4, 4, seed=7),
    "group norm": numbers(2, 4, 3, seed=8),
    "interpolation": numbers(2, 2, 3, 3, seed=9),
    "determinant": numbers(2, 3, 3, seed=10) + 2 * torch.eye(3),
    "inverse": numbers(2, 3, 3, seed=13) + 3 * torch.eye(3),
    "unfold": numbers(2, 8, seed=14),
}
KERNEL = numbers(4, 3, 3, 3, seed=21)


def _image(f: Function, dims: int) -> Function:
    """For one image or for several, because vmap gives one."""

    def function(x: torch.Tensor) -> Any:
        return f(x if x.dim() == dims else x.unsqueeze(0))

    return function


FUNCTIONS |= {
    "convolution": _image(lambda x: F.conv2d(x, _on(KERNEL, x), padding=1).tanh(), 4),
    "convolution 1d": _image(lambda x: F.conv1d(x, _on(KERNEL[:, :, 0], x)) ** 2, 3),
    "average pooling": _image(lambda x: F.avg_pool2d(x * x, 2), 4),
    "maximum pooling": _image(lambda x: F.max_pool2d(x, 2) ** 2, 4),
    "adaptive pooling": _image(lambda x: F.adaptive_avg_pool2d(x * x, 1), 4),
    "group norm": _image(lambda x: F.group_norm(x, 2), 3),
    "interpolation": _image(lambda x: F.interpolate(x * x, scale_factor=2.0), 4),
    "determinant": lambda x: torch.linalg.det(x) ** 2,
    "inverse": lambda x: torch.linalg.inv(x),
    "unfold": lambda x: x.unfold(-1, 3, 2).prod(-1),
}


def _scalar(f: Function) -> Function:
    return lambda x: f(x).sum()


def _pull(f: Function) -> Function:
    def pulled(x: torch.Tensor) -> Any:
        result, back = vjp(f, x)
        return result, back(result.cos())

    return pulled


def _push(f: Function) -> Function:
    return lambda x: jvp(f, (x,), (x.cos(),))


def _twice_reverse(f: Function) -> Function:
    return lambda x: jacrev(jacrev(_scalar(f)))(x)


def _penalty(f: Function) -> Function:
    return grad(lambda x: grad(_scalar(f))(x).square().sum())


# Transforms of a function. Dynamo itself does not trace a vmap of a hessian.
REVERSE: dict[str, Transform] = {
    "plain": lambda f: f,
    "grad": lambda f: grad(_scalar(f)),
    "grad and value": lambda f: grad_and_value(_scalar(f)),
    "vjp": _pull,
    "jacrev": lambda f: jacrev(f),
    "jacrev of jacrev": _twice_reverse,
    "grad of a gradient's norm": _penalty,
}
FORWARD: dict[str, Transform] = {
    "jvp": _push,
    "jacfwd": lambda f: jacfwd(f),
    "hessian": lambda f: hessian(_scalar(f)),
    "jvp of grad": lambda f: _push(grad(_scalar(f))),
}
VMAP: dict[str, Transform] = {
    "vmap": lambda f: vmap(f),
    "vmap of grad": lambda f: vmap(grad(_scalar(f))),
    "vmap of grad and value": lambda f: vmap(grad_and_value(_scalar(f))),
    "vmap of vjp": lambda f: vmap(_pull(f)),
    "vmap of jacrev": lambda f: vmap(jacrev(f)),
    "vmap of a gradient's norm": lambda f: vmap(_penalty(f)),
    "grad of vmap": lambda f: grad(lambda x: vmap(f)(x).sum()),
    "jacrev of vmap": lambda f: jacrev(lambda x: vmap(f)(x).reshape(-1)[:3]),
}
VMAP_FORWARD: dict[str, Transform] = {
    "vmap of jvp": lambda f: vmap(_push(f)),
    "vmap of jacfwd": lambda f: vmap(jacfwd(f)),
    "jvp of vmap": lambda f: _push(vmap(f)),
}
GROUPS = {"reverse": REVERSE, "forward": FORWARD, "vmap": VMAP, "vmap, forward": VMAP_FORWARD}
TRANSFORMS = REVERSE | FORWARD | VMAP | VMAP_FORWARD

# Eager code of PyTorch before 2.15 computes these wrongly. Each row has the function without the
# fault.
EAGER_IS_WRONG: dict[tuple[str, str], Transform] = {
    ("determinant", "vmap of jacfwd"): lambda f: (
        lambda x: torch.stack([jacfwd(f)(sample) for sample in x])
    ),
}


def reference(function: str, transform: str) -> Function:
    """The eager function that a compiled one is compared with."""
    made = EAGER_IS_WRONG.get((function, transform), TRANSFORMS[transform])
    return made(FUNCTIONS[function])


def short_form() -> list[tuple[str, tuple[str, ...]]]:
    """Every third function with two transforms, every transform with several functions."""
    names = list(TRANSFORMS)
    return [
        (function, (names[(5 * i) % len(names)], names[(5 * i + 11) % len(names)]))
        for i, function in enumerate(list(FUNCTIONS)[::3])
    ]


def given(function: str) -> torch.Tensor:
    return INPUTS.get(function, numbers(3, 4))


def per_sample(parameters: dict[str, torch.Tensor], module: torch.nn.Module) -> Function:
    """Gradients of a module's parameters for every sample of a batch."""

    def loss(parameters: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return functional_call(module, parameters, (x.unsqueeze(0),)).square().sum()

    return lambda x: vmap(grad(loss), in_dims=(None, 0))(parameters, x)
