"""The hpu device as PyTorch users see it: tensors, copies, views, eager ops, autograd."""

from __future__ import annotations

import copy
import io
import os

import pytest
import torch
from processes import output_of

import habana_frameworks.torch  # noqa: F401  registers the device

HPU = torch.device("hpu")


def on_hpu(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(HPU)


def test_accelerator_is_found():
    assert torch.accelerator.current_accelerator() == torch.device("hpu")
    assert torch.hpu.is_available()
    assert torch.hpu.device_count() == int(os.environ["HPU_EMULATOR_MODULES"])
    assert torch.accelerator.device_count() == torch.hpu.device_count()
    assert torch.empty(1, device="hpu").device == torch.device("hpu:0")


def test_an_error_names_what_hides_all_modules():
    code = """
import torch
try:
    torch.ones(2, device="hpu")
except RuntimeError as error:
    print(torch.hpu.is_available(), str(error).splitlines()[0].partition("libSynapse.so")[2])
"""
    found = output_of(code, HABANA_VISIBLE_MODULES="5000", HPU_EMULATOR_MODULES="8").stdout
    assert found == "False ; HABANA_VISIBLE_MODULES=5000 may hide them all\n"


def test_a_rank_names_the_processes_device_by_its_number():
    code = """
import torch
torch.hpu.set_device(1)
torch.accelerator.set_device_index(2)
x = torch.ones(2, device="hpu:3")
print(x.device, torch.hpu.current_device(), torch.zeros(1).to("hpu:1").device, (x + 1).tolist())
for call in (
    lambda: torch.empty(1, device="hpu:8"),
    lambda: torch.hpu.set_device(9),
    lambda: torch.hpu.set_device("hpu:9"),
):
    try:
        call()
    except Exception as error:
        print(str(error).splitlines()[0])
"""
    lines = output_of(code, HPU_EMULATOR_MODULES="8").stdout.splitlines()
    assert lines == [
        "hpu:0 0 hpu:0 [2.0, 2.0]",
        "hpu:8 does not exist: this host has 8 hpu devices, and a process holds one of them",
        "hpu:9: this host has 8 hpu devices",
        "hpu:9: this host has 8 hpu devices",
    ]


DTYPES = [
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_round_trip(dtype):
    x = (torch.randn(3, 5, dtype=torch.float32) * 4).to(dtype)
    assert torch.equal(on_hpu(x).cpu(), x)


@pytest.mark.parametrize("source", [torch.float32, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("target", [torch.float64, torch.bfloat16, torch.int32], ids=str)
def test_copies_change_dtype_both_ways(source, target):
    x = torch.tensor([[0, 1, -2], [3, 4, 100]]).to(source)
    assert torch.equal(x.to("hpu", target).cpu(), x.to(target))
    assert torch.equal(on_hpu(x).to("cpu", target), x.to(target))
    assert torch.equal(on_hpu(x).to(target).cpu(), x.to(target))


def test_copies_of_views_both_ways():
    base = torch.arange(60.0).view(3, 4, 5)
    views = [
        base.t() if base.dim() == 2 else base.permute(2, 0, 1),
        base[:, 1:3],
        base[1],
        base[..., ::2],
    ]
    for view in views:
        device = on_hpu(base).as_strided(view.size(), view.stride(), view.storage_offset())
        assert torch.equal(device.cpu(), view)
        assert device.stride() == view.stride()
        target = torch.zeros_like(base, device="hpu").as_strided(
            view.size(), view.stride(), view.storage_offset()
        )
        target.copy_(view)
        assert torch.equal(target.cpu(), view)
        back = torch.zeros_like(base).as_strided(view.size(), view.stride(), view.storage_offset())
        back.copy_(device)
        assert torch.equal(back, view)


def test_copy_keeps_strides_of_dense_tensors():
    x = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    y = on_hpu(x)
    assert y.stride() == x.stride()
    assert torch.equal(y.cpu(), x)


def test_copy_broadcasts():
    target = torch.zeros(3, 4, device="hpu")
    target.copy_(torch.arange(4.0))
    assert torch.equal(target.cpu(), torch.arange(4.0).expand(3, 4))
    target.copy_(torch.tensor(7.0, device="hpu"))
    assert torch.equal(target.cpu(), torch.full((3, 4), 7.0))


def test_scalars_and_empty_tensors():
    x = torch.tensor(2.5, device="hpu")
    assert x.shape == () and x.item() == 2.5 and float(x) == 2.5
    assert torch.tensor(True, device="hpu").item() is True
    empty = torch.empty(0, 3, device="hpu")
    assert empty.cpu().shape == (0, 3) and on_hpu(torch.empty(2, 0)).numel() == 0
    assert torch.cat([empty, torch.ones(1, 3, device="hpu")]).shape == (1, 3)


def test_item_of_many_elements_is_refused():
    with pytest.raises(RuntimeError, match="2 elements cannot be converted to Scalar"):
        torch.ones(2, device="hpu").item()


def test_printing():
    text = repr(torch.tensor([1.0, 2.5], device="hpu"))
    assert text == "tensor([1.0000, 2.5000], device='hpu:0')"


def test_views_share_memory():
    x = torch.zeros(4, 4, device="hpu")
    x[1:3, ::2].fill_(5)
    x.t()[0, 3] = 7
    x.view(16)[15] = 9
    expected = torch.zeros(4, 4)
    expected[1:3, ::2] = 5
    expected[3, 0] = 7
    expected[3, 3] = 9
    assert torch.equal(x.cpu(), expected)
    assert x.unfold(0, 2, 1).cpu().equal(expected.unfold(0, 2, 1))
    assert x.view(torch.int32).data_ptr() == x.data_ptr()


def test_complex_views():
    z = torch.randn(3, dtype=torch.complex64)
    device = on_hpu(z)
    assert torch.equal(torch.view_as_real(device).cpu(), torch.view_as_real(z))
    assert torch.equal(device.conj().cpu(), z.conj())
    assert torch.equal(device.conj().imag.cpu(), z.conj().imag)
    assert torch.equal((device.conj() * 2).cpu(), z.conj() * 2)


@pytest.mark.parametrize("value", [0, 1, -3, 0.1, float("nan")])
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int8, torch.int64], ids=str
)
def test_fill(dtype, value):
    if not dtype.is_floating_point and value != int(value if value == value else 0.5):
        pytest.skip("no such value")
    expected = torch.empty(3, 5, dtype=dtype).fill_(value)
    assert (
        torch.empty(3, 5, dtype=dtype, device="hpu")
        .fill_(value)
        .cpu()
        .allclose(expected, equal_nan=True)
    )
    strided = torch.zeros(5, 3, dtype=dtype, device="hpu").t()[:, ::2]
    strided.fill_(value)
    assert strided.cpu().allclose(expected[:, ::2], equal_nan=True)


def test_in_place_out_and_list_arguments():
    x = torch.arange(6.0, device="hpu")
    y = x.add_(1)
    assert y is x and x.cpu().tolist() == [1, 2, 3, 4, 5, 6]
    out = torch.empty(6, device="hpu")
    assert torch.add(x, x, out=out) is out and out.cpu().tolist() == [2, 4, 6, 8, 10, 12]
    wrong_size = torch.empty(0, device="hpu")
    torch.add(x, 1, out=wrong_size)
    assert wrong_size.cpu().tolist() == [2, 3, 4, 5, 6, 7]
    torch._foreach_add_([x, out], 1)
    assert x.cpu().tolist() == [2, 3, 4, 5, 6, 7] and out[0].item() == 3
    parts = torch.split(x, 4)
    assert [p.shape[0] for p in parts] == [4, 2] and parts[1].data_ptr() == x[4:].data_ptr()
    assert x[torch.tensor([0, 5])].cpu().tolist() == [2, 7]  # indices on the CPU
    assert x[torch.tensor([True] * 6, device="hpu")].shape == (6,)


def test_resize_set_and_storage():
    x = torch.arange(4.0, device="hpu")
    x.resize_(2, 3)
    assert x.shape == (2, 3) and x.view(-1)[:4].cpu().tolist() == [0, 1, 2, 3]
    y = torch.empty(0, device="hpu").set_(x.untyped_storage(), 1, (2,), (2,))
    assert y.cpu().tolist() == [1, 3]
    z = torch.empty(0, device="hpu").set_(x)
    assert z.data_ptr() == x.data_ptr() and z.shape == (2, 3)
    assert x.untyped_storage().device == torch.device("hpu:0")
    assert x.untyped_storage().cpu().tolist() == x.cpu().untyped_storage().tolist()


def test_mixed_devices_give_the_usual_error():
    with pytest.raises(
        RuntimeError, match="Expected all tensors to be on the same device.*hpu:0 and cpu"
    ):
        torch.ones(3, device="hpu") + torch.ones(3)
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(2, 3, device="hpu") @ torch.ones(3, 2)
    assert (torch.ones(3, device="hpu") + torch.tensor(2.0)).cpu().tolist() == [3, 3, 3]


def test_autograd_through_eager_ops():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, padding=1),
        torch.nn.BatchNorm2d(4),
        torch.nn.GELU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(64, 10),
        torch.nn.LayerNorm(10),
    )
    twin = copy.deepcopy(model).to("hpu")
    x, target = torch.randn(2, 3, 8, 8), torch.tensor([1, 7])
    loss = torch.nn.functional.cross_entropy(model(x), target)
    twin_loss = torch.nn.functional.cross_entropy(twin(on_hpu(x)), on_hpu(target))
    assert twin_loss.device.type == "hpu"
    loss.backward()
    twin_loss.backward()
    torch.testing.assert_close(twin_loss.cpu(), loss)
    for ours, theirs in zip(twin.parameters(), model.parameters(), strict=True):
        assert ours.grad.device.type == "hpu"
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad)


def test_forward_mode_through_eager_ops():
    """A value without a tangent gets one of zeros without memory, which ended the process."""
    torch.manual_seed(0)
    layer, x = torch.nn.Linear(3, 2), torch.randn(4, 3)
    theirs = torch.func.jvp(layer, (x,), (x,))
    x = x.to("hpu")
    ours = torch.func.jvp(layer.to("hpu"), (x,), (x,))
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.cpu(), other)
    zeros = torch._efficientzerotensor((2, 3), device="hpu")
    assert zeros.cpu().tolist() == (zeros + 0).cpu().tolist() == [[0, 0, 0], [0, 0, 0]]


def test_optimizer_step_matches_cpu():
    weights = torch.randn(4, 4)
    results = []
    for device in ("cpu", "hpu"):
        w = weights.clone().to(device).requires_grad_()
        optimizer = torch.optim.AdamW([w], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
        results.append(w.detach().cpu())
    torch.testing.assert_close(*results)


def test_serialisation():
    x = torch.randn(3, 4, device="hpu")
    file = io.BytesIO()
    torch.save({"x": x, "t": x.t()}, file)
    file.seek(0)
    loaded = torch.load(file)
    assert loaded["x"].device.type == "hpu" and torch.equal(loaded["x"], x)
    assert loaded["t"].data_ptr() == loaded["x"].data_ptr()
    file.seek(0)
    assert torch.equal(torch.load(file, map_location="cpu")["x"], x.cpu())
