"""Products whose rows belong to groups: torch._grouped_mm, and the form of it that transformers
has for types and modes that PyTorch's own does not take."""

from __future__ import annotations

import pytest
import torch
import transformers
import transformers.integrations.moe  # registers torch.ops.transformers.grouped_mm_fallback
from eager_case import place_on_cpu
from helpers import fresh_process
from lazy_case import lazy_mode
from training_case import assert_close, compiled, matrix, only_graph

from habana_frameworks.torch.dynamo import report

WAYS = ("eager", "lazy", "compiled")
OPS = {
    "torch": torch.ops.aten._grouped_mm.default,
    "transformers": torch.ops.transformers.grouped_mm_fallback.default,
}
ROWS, INNER, COLUMNS, GROUPS = 21, 16, 8, 4
ENDS = torch.tensor([3, 3, 20, 21], dtype=torch.int32)


def operands(dtype=torch.float32):
    return matrix(ROWS, INNER).to(dtype), matrix(GROUPS, INNER, COLUMNS, seed=1).to(dtype)


def expected(x, weights, ends=ENDS):
    y, begin = torch.zeros(x.shape[0], weights.shape[2], dtype=torch.float64), 0
    for weight, end in zip(weights.double(), ends.tolist(), strict=True):
        y[begin:end] = x[begin:end].double() @ weight
        begin = max(begin, end)
    return y


def run(way, function, *inputs):
    """Without a kernel on the CPU."""
    given = [x.to("hpu") for x in inputs]
    with place_on_cpu("none"):
        if way == "compiled":
            result = compiled(function)(*given)
            only_graph()
            return result.cpu()
        if way == "lazy":
            with lazy_mode():
                return function(*given).cpu()
        return function(*given).cpu()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("ends", [ENDS, torch.tensor([0, 5, 5, 19], dtype=torch.int32)])
def test_rows_by_the_matrix_of_their_group(ends, dtype, way):
    """Rows of no group are 0, where PyTorch's CPU kernel leaves them as they are."""
    x, weights = operands(dtype)
    y = run(way, OPS["torch"], x, weights, ends)
    assert y.dtype == dtype
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}[dtype]
    torch.testing.assert_close(y.double(), expected(x, weights, ends), rtol=tolerance, atol=1e-5)


@pytest.mark.parametrize("way", WAYS)
def test_columns_ranges_and_whole_matrices(way):
    x, weights = operands()

    def forms(x, weights, ends):
        padded = torch.nn.functional.pad(x, (0, 0, 0, 3))
        columns = torch._grouped_mm(weights.mT.contiguous(), padded.t(), offs=ends)
        ranges = torch._grouped_mm(padded.t(), padded, offs=ends)
        whole = torch._grouped_mm(weights.mT.contiguous(), weights)
        return torch.cat([columns.flatten(), ranges.flatten(), whole.flatten()])

    got = run(way, forms, x, weights, ENDS)
    columns = expected(x, weights).t()
    parts, begin = [], 0
    for end in ENDS.tolist():
        parts.append(x[begin:end].t() @ x[begin:end])
        begin = max(begin, end)
    size = COLUMNS * (ROWS + 3)
    torch.testing.assert_close(
        got[:size].reshape(COLUMNS, ROWS + 3)[:, :ROWS].double(), columns, rtol=1e-5, atol=1e-5
    )
    rest = torch.cat([torch.stack(parts).flatten(), (weights.mT @ weights).flatten()])
    torch.testing.assert_close(got[size:], rest, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", OPS)
def test_gradients(name, way):
    x, weights = operands()
    dy = matrix(ROWS, COLUMNS, seed=3)

    def gradients(x, weights, dy):
        y = OPS[name](x, weights, ENDS.to(x.device))
        return torch.autograd.grad((y * dy).sum(), (x, weights))

    def loss(x, weights, dy, ends):
        return (OPS[name](x, weights, ends) * dy).sum()

    want = gradients(x.requires_grad_(), weights.requires_grad_(), dy)
    given = [t.detach().to("hpu").requires_grad_() for t in (x, weights)]
    rest = (dy.to("hpu"), ENDS.to("hpu"))
    if way == "lazy":
        with lazy_mode():
            loss(*given, *rest).backward()
            got = [t.grad.cpu() for t in given]
    else:
        function = compiled(loss) if way == "compiled" else loss
        function(*given, *rest).backward()
        got = [t.grad.cpu() for t in given]
        if way == "compiled":
            only_graph()
    for own, other in zip(got, want, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-5)


def test_without_rows():
    weights = operands()[1]
    ends = torch.zeros(GROUPS, dtype=torch.int32)
    assert run("compiled", OPS["torch"], torch.empty(0, INNER), weights, ends).shape == (0, COLUMNS)


def mixtral():
    config = transformers.MixtralConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, num_local_experts=4, use_cache=False,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.MixtralForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.2)
    return model


@pytest.mark.parametrize("tokens", [1, 33])
def test_a_mixture_of_experts_is_one_graph_without_eager_nodes(tokens):
    ids = torch.arange(tokens).reshape(1, -1) % 64
    model = mixtral()
    with torch.no_grad():
        want = model(ids).logits
        model.to("hpu")
        fresh_process()
        got = torch.compile(model, backend="hpu_backend")(ids.to("hpu")).logits
    assert [graph.eager_nodes for graph in report().graphs if graph.origin != "eager"] == [0]
    assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_training_a_mixture_of_experts():
    ids = (torch.arange(40) * 7 % 64).reshape(2, 20)

    def losses(model, step, device):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        found = []
        for _ in range(3):
            loss = step(input_ids=ids.to(device), labels=ids.to(device)).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            found.append(loss.item())
        return torch.tensor(found)

    want = losses(model := mixtral().train(), model, "cpu")
    model = mixtral().train().to("hpu")
    fresh_process()
    got = losses(model, torch.compile(model, backend="hpu_backend"), "hpu")
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    assert want[2] < want[0]
