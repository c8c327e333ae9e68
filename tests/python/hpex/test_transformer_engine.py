"""habana_frameworks.torch.hpex.experimental.transformer_engine, against a reference that is
computed on the CPU with PyTorch's own fp8 types."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from fp8_layer_case import E4M3, E5M2, RECIPES, Reference, inputs, layer, run
from torch.utils.checkpoint import checkpoint
from training_case import assert_close, matrix

import habana_frameworks.torch as ht
from habana_frameworks.torch.hpex.experimental import transformer_engine as te
from habana_frameworks.torch.hpex.experimental.transformer_engine.recipe import (
    DelayedScaling,
    Format,
)


@pytest.fixture(autouse=True)
def fresh_state(monkeypatch):
    monkeypatch.setenv("PT_TE_FORCE_SR_BWD", "0")  # numbers must be those of the reference
    te.fp8.reset_global_state()
    yield
    te.fp8.reset_global_state()


@pytest.mark.parametrize("name", RECIPES)
def test_linear_is_the_reference(name):
    recipe = RECIPES[name]
    made, reference = layer(), Reference(recipe)
    weight, bias = made.weight.detach().cpu(), made.bias.detach().cpu()
    sizes = (0, 1, 2, 0, 0, 3, 1)
    for step in sizes:
        x, g = inputs(step)
        given = run(made, x, g, recipe)
        for mine, wanted in zip(given, reference.step(x, weight, bias, g), strict=True):
            assert_close(mine, wanted, 1e-5, 1e-5 * wanted.abs().max().item())
    scales = made.fp8_meta["scaling_fwd"].scale.cpu().tolist()
    assert scales == [reference.x.value, reference.w.value]
    assert made.fp8_meta["scaling_fwd"].scale_inv.cpu().tolist() == [1 / s for s in scales]
    assert made.fp8_meta["scaling_bwd"].scale.item() == reference.g.value
    assert len({reference.x.value, reference.w.value, reference.g.value, 1.0}) > 2


def test_the_scales_matter():
    """Without a scale that fits, small numbers would be lost in fp8."""
    recipe, made = DelayedScaling(fp8_format=Format.E4M3), layer(bias=False)
    x = matrix(8, 16) * 2.0**-12
    x_hpu = x.to("hpu")
    with te.fp8_autocast(enabled=True, fp8_recipe=recipe), torch.no_grad():
        first, second = made(x_hpu).cpu(), made(x_hpu).cpu()
    exact = F.linear(x, made.weight.detach().cpu())
    error = [((y - exact).norm() / exact.norm()).item() for y in (first, second)]
    assert error[0] > 0.5 and error[1] < 0.05


def test_numbers_beyond_the_format_become_the_largest_one():
    made = layer(bias=False)
    x = torch.full((1, 16), 1000.0, device="hpu")
    with te.fp8_autocast(enabled=True, fp8_recipe=DelayedScaling(fp8_format=Format.E4M3)):
        y = made(x)
    weight = made.weight.detach().cpu().to(E4M3).float()
    assert_close(y, F.linear(torch.full((1, 16), 448.0), weight), 1e-5, 1e-3)


def test_which_gradients_are_rounded_stochastically(monkeypatch):
    hybrid, e5m2 = (DelayedScaling(fp8_format=f) for f in (Format.HYBRID, Format.E5M2))
    for forced, wanted in (("", [True, False]), ("1", [True, True]), ("0", [False, False])):
        monkeypatch.setenv("PT_TE_FORCE_SR_BWD", forced)
        assert [te.fp8.get_fp8_te_sr(r, fprop_tensor=False) for r in (hybrid, e5m2)] == wanted
        assert not te.fp8.get_fp8_te_sr(hybrid, fprop_tensor=True)


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
@pytest.mark.parametrize("sign", [1, -1])
def test_stochastic_rounding(dtype, sign):
    """18.5 lies between 18 and 20 in e4m3 and between 16 and 20 in e5m2."""
    meta = te.utils.FP8TensorMeta()
    meta.reset(tensors=1, history=1, device=torch.device("hpu"))
    meta.scale, meta.scale_inv = meta.scale * 8, meta.scale_inv / 8
    torch.manual_seed(0)
    x = torch.full((4000,), 18.5 * sign, device="hpu")
    rounded = te.cpp_extensions.cast_to_fp8(x, meta, 0, dtype, stochastic_rounding=True)
    back = te.cpp_extensions.cast_from_fp8(rounded, meta, 0, torch.float32).cpu() * sign
    lower = 18.0 if dtype is E4M3 else 16.0
    assert set(back.tolist()) == {lower, 20.0}
    # Five standard deviations of the mean.
    share = (18.5 - lower) / (20 - lower)
    bound = 5 * (20 - lower) * (share * (1 - share) / 4000) ** 0.5
    assert back.mean().item() == pytest.approx(18.5, abs=bound)
    assert meta.amax_history.item() == 18.5
    nearest = te.cpp_extensions.cast_to_fp8(x, meta, 0, dtype, measure_amax=False)
    assert set(nearest.float().cpu().tolist()) == {8 * sign * (18.0 if dtype is E4M3 else 20.0)}


def test_the_backward_of_hybrid_is_stochastic(monkeypatch):
    monkeypatch.delenv("PT_TE_FORCE_SR_BWD")
    made, (x, _) = layer(), inputs(0)
    g = torch.full((8, 4), 18.5)
    torch.manual_seed(0)
    found = {run(made, x, g, RECIPES["hybrid"])[1].sum().item() for _ in range(4)}
    assert len(found) == 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_without_fp8_it_is_a_linear_layer(dtype):
    made = layer(params_dtype=dtype)
    plain = torch.nn.Linear(16, 4).to("hpu", dtype)
    plain.load_state_dict({"weight": made.weight, "bias": made.bias})
    x = matrix(8, 16).to("hpu", dtype)
    with te.fp8_autocast(enabled=False):
        assert not te.is_fp8_enabled()
        assert torch.equal(made(x).cpu(), plain(x).cpu())
    assert made.fp8_meta.keys() == {"recipe"}


def test_types_of_results():
    made = layer(params_dtype=torch.bfloat16)
    with te.fp8_autocast(enabled=True):
        assert made(torch.ones(2, 3, 16, dtype=torch.bfloat16, device="hpu")).shape == (2, 3, 4)
        y = made(torch.ones(2, 16, dtype=torch.bfloat16, device="hpu"))
        assert y.dtype is torch.bfloat16
        with torch.autocast("hpu", torch.bfloat16):
            assert layer()(torch.ones(2, 16, device="hpu")).dtype is torch.bfloat16
    y.sum().backward()
    assert made.weight.grad.dtype is torch.bfloat16


def test_autocast_nests_and_decorates():
    recipe = DelayedScaling(margin=1)
    assert te.is_fp8_available() == (True, "")
    with te.fp8_autocast(enabled=True, fp8_recipe=recipe):
        assert te.is_fp8_enabled() and te.fp8.get_fp8_recipe() is recipe
        with te.fp8_autocast(enabled=False):
            assert not te.is_fp8_enabled()
        assert te.fp8.get_fp8_recipe() is recipe
    assert not te.is_fp8_enabled()
    decorated = te.fp8_autocast(enabled=True)(te.is_fp8_enabled)
    assert [decorated(), decorated(), te.is_fp8_enabled()] == [True, True, False]
    with pytest.raises(KeyError), te.fp8_autocast(enabled=True):
        raise KeyError
    assert not te.is_fp8_enabled()


def test_measurement_by_hand():
    made, recipe = layer(), DelayedScaling(interval=100)
    x, _ = inputs(2)
    with te.fp8_autocast(enabled=True, force_measurement=False):
        assert te.fp8.get_manual_measurement_mode() is False
    for measure, follows in ((False, False), (True, False), (False, True), (False, True)):
        te.fp8.set_measurement_mode(manual=True, manual_value=measure)
        with te.fp8_autocast(enabled=True, force_measurement=measure, fp8_recipe=recipe):
            made(x.to("hpu"))
        assert (made.fp8_meta["scaling_fwd"].scale[0].item() != 1) is follows
    te.fp8.set_measurement_mode(manual=False)
    assert te.fp8.get_manual_measurement_mode() is None


def test_kept_weights():
    """Later microbatches take the weight in fp8 of the first one."""
    made, x = layer(bias=False), matrix(8, 16).to("hpu")
    with te.fp8_autocast(enabled=True), torch.no_grad():
        first = made(x, is_first_microbatch=True).cpu()
        made.weight.zero_()
        made.fp8_meta["scaling_fwd"].measured = False  # the scales stay
        assert torch.equal(made(x, is_first_microbatch=False).cpu(), first)
        made.fp8_meta["scaling_fwd"].measured = False
        assert made(x).abs().max().item() == 0


def test_weights_of_the_caller():
    made = te.Linear(16, 4, skip_weight_param_allocation=True, minimize_memory=True)
    kept, recipe = layer(), RECIPES["hybrid"]
    for step in (0, 2, 2):
        x, g = inputs(step)
        wanted = run(kept, x, g, recipe)
        weight = kept.weight.detach().clone().requires_grad_()
        bias = kept.bias.detach().clone().requires_grad_()
        x = x.to("hpu").requires_grad_()
        with te.fp8_autocast(enabled=True, fp8_recipe=recipe):
            y = made(x, weight, bias)
        y.backward(g.to("hpu"))
        for mine, its in zip((y, x.grad, weight.grad, bias.grad), wanted, strict=True):
            assert torch.equal(mine.detach().cpu(), its.cpu())
    returned, bias = layer(return_bias=True)(x)
    assert_close(returned + bias, F.linear(x.cpu(), kept.weight.cpu(), kept.bias.cpu()))


@pytest.mark.parametrize("reentrant", [True, False])
def test_activation_checkpointing(reentrant):
    """A layer that is computed again has the scales of the first time, and measures once."""
    recipe = RECIPES["longest"]
    plain, again = layer(), layer()

    @te.activation_checkpointing()
    def twice(x):
        with te.fp8_autocast(enabled=True, fp8_recipe=recipe):
            return again(x)

    for step in (0, 2, 1):
        x, g = inputs(step)
        wanted = run(plain, x, g, recipe)
        x = x.to("hpu").requires_grad_()
        again.zero_grad()
        checkpoint(twice, x, use_reentrant=reentrant).backward(g.to("hpu"))
        assert torch.equal(x.grad.cpu(), wanted[1].cpu())
        assert torch.equal(again.weight.grad.cpu(), wanted[2].cpu())
        for name in ("scaling_fwd", "scaling_bwd", "scaling_hybrid"):
            mine, its = again.fp8_meta[name].tensors(), plain.fp8_meta[name].tensors()
            assert all(torch.equal(mine[n].cpu(), its[n].cpu()) for n in its), name
    assert not again._again


@pytest.mark.parametrize("used", [True, False])
def test_checkpoints_keep_the_scales(used):
    recipe, made = RECIPES["longest"], layer()
    if used:
        for step in (0, 2):
            run(made, *inputs(step), recipe)
    other = layer()
    other.load_state_dict(copy.deepcopy(made.state_dict()))
    wanted, given = (run(one, *inputs(3), recipe) for one in (made, other))
    for mine, its in zip(given, wanted, strict=True):
        assert torch.equal(mine.cpu(), its.cpu())


@pytest.mark.parametrize("length", [2, 5])
def test_history_of_another_length(length):
    """The newest measurements stay."""
    made, recipe = layer(), DelayedScaling(amax_history_len=3, amax_compute_algo="max")
    reference = Reference(recipe)
    weight, bias = made.weight.detach().cpu(), made.bias.detach().cpu()
    steps = [3, 2, 1, 0, 0, 0, 0]
    for number, step in enumerate(steps):
        if number == 4:
            recipe = DelayedScaling(amax_history_len=length, amax_compute_algo="max")
            reference.recipe = recipe
            for scale in (reference.x, reference.w, reference.g):
                scale.recipe = recipe
                del scale.history[:-3]  # what was kept until now
        x, g = inputs(step)
        run(made, x, g, recipe)
        reference.step(x, weight, bias, g)
        assert made.fp8_meta["scaling_fwd"].scale[0].item() == reference.x.value


def test_functions_of_the_user():
    seen = []

    def scale(amax, old, largest, recipe):
        seen.append((amax.cpu().tolist(), old.cpu().tolist(), largest))
        return old * 2

    recipe = DelayedScaling(
        fp8_format=Format.E4M3,
        amax_history_len=2,
        amax_compute_algo=lambda history: history.sum(0),
        scaling_factor_compute_algo=scale,
    )
    made = layer()
    x = matrix(8, 16).to("hpu")
    with te.fp8_autocast(enabled=True, fp8_recipe=recipe), torch.no_grad():
        for _ in range(2):
            made(x)
    amax = [x.abs().max().item(), made.weight.abs().max().item()]
    assert seen == [(pytest.approx(amax), [1.0, 1.0], 448.0)]
    assert made.fp8_meta["scaling_fwd"].scale.cpu().tolist() == [2.0, 2.0]


def test_layer_norm():
    x = matrix(4, 16)
    for centered in (False, True):
        made = te.LayerNorm(16, eps=1e-3, zero_centered_gamma=centered)
        with torch.no_grad():
            made.weight.add_(0.5)
            made.bias.add_(0.25)
        wanted = F.layer_norm(x, [16], torch.full((16,), 1.5), torch.full((16,), 0.25), 1e-3)
        assert_close(made(x.to("hpu")), wanted, 1e-5, 1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: te.Linear(2, 2, tp_size=2), "over several devices are not supported"),
        (lambda: te.Linear(2, 2, parallel_mode="both"), 'use "row" or "column"'),
        (lambda: te.LayerNorm(2, sequence_parallel=True), "sequence_parallel=True"),
        (lambda: DelayedScaling(amax_compute_algo="mean"), 'use "max", "most_recent"'),
        (lambda: DelayedScaling(interval=0), "must be 1 at least"),
        (lambda: DelayedScaling(override_linear_precision=(True, False, False)), "not supported"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_what_is_not_here_says_what_to_use():
    with pytest.raises(AttributeError, match="'FusedAttention': use .*FusedSDPA"):
        te.FusedAttention  # noqa: B018  the look-up raises
    assert not hasattr(te, "no_such_name")


def test_training_in_fp8_learns():
    torch.manual_seed(0)
    model = torch.nn.Sequential(te.Linear(16, 32), torch.nn.ReLU(), te.Linear(32, 4))
    with torch.no_grad():
        for made in (model[0], model[2]):
            torch.nn.init.kaiming_uniform_(made.weight)
    x, wanted = matrix(64, 16).to("hpu"), matrix(64, 4, seed=1).to("hpu")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        with te.fp8_autocast(enabled=True, fp8_recipe=DelayedScaling(amax_history_len=4)):
            loss = F.mse_loss(model(x), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]


def test_compiled_layers_give_the_same():
    recipe = DelayedScaling()
    eager, made = layer(), layer()
    compiled = torch.compile(made, backend="hpu_backend")
    for step in (0, 2, 1):
        x, g = inputs(step)
        wanted = run(eager, x, g, recipe)
        x = x.to("hpu").requires_grad_()
        made.zero_grad()
        with te.fp8_autocast(enabled=True, fp8_recipe=recipe):
            y = compiled(x)
        y.backward(g.to("hpu"))
        for mine, its in zip((y, x.grad, made.weight.grad), wanted, strict=False):
            assert_close(mine, its.cpu(), 1e-5, 1e-5 * its.abs().max().item())
    assert any(graph.origin != "eager" for graph in ht.dynamo.report().graphs)


@pytest.mark.parametrize("fp8_format", [Format.E5M2, Format.HYBRID])
def test_replays_of_a_graph_go_on_from_the_last_one(fp8_format):
    """Each replay lets the scales follow what the replays before it measured."""
    recipe = DelayedScaling(fp8_format=fp8_format, amax_history_len=2)
    eager, made = layer(), layer()
    x = inputs(0)[0].to("hpu")
    with torch.no_grad(), te.fp8_autocast(enabled=True, fp8_recipe=recipe):
        assert torch.equal(eager(x), made(x))
        saved = made.save_fp8_meta()
        given = torch.zeros_like(x)
        graph = ht.hpu.HPUGraph()
        with ht.hpu.graph(graph):
            y = made(given)
        made.load_fp8_meta(saved)
        for factor in (1, 40, 1000, 0.01, 1, 1, 1):
            given.copy_(x * factor)
            graph.replay()
            assert torch.equal(y, eager(x * factor))
            for name in ("scale", "scale_inv", "amax_history"):
                metas = (made.fp8_meta["scaling_fwd"], eager.fp8_meta["scaling_fwd"])
                assert torch.equal(*(getattr(meta, name) for meta in metas))
        assert made.fp8_meta["scaling_fwd"].scale[0].item() != 1
