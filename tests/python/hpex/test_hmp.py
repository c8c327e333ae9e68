"""habana_frameworks.torch.hpex.hmp: the rules HMP-1 to HMP-21 of the guide."""

from __future__ import annotations

import inspect
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from training_case import assert_close, matrix

from habana_frameworks.torch.hpex import hmp
from habana_frameworks.torch.hpex.hmp import lists

pytestmark = pytest.mark.usefixtures("hmp_off_afterwards")

BF16, FP32 = torch.bfloat16, torch.float32
GUIDE_BF16 = ["addmm", "bmm", "conv1d", "conv2d", "conv3d", "dot", "mm", "mv"]
GUIDE_FP32 = ["batch_norm", "cross_entropy", "log_softmax", "softmax", "nll_loss", "topk"]
RESNET_BF16 = "addmm avg_pool2d bmm conv2d dot max_pool2d mm mv relu t linear"
RESNET_FP32 = "cross_entropy log_softmax softmax nll_loss topk"


def convert_with(tmp_path, bf16="", fp32="", **options):
    """bf16, fp32: the text of files; "" is the built-in list."""
    paths = {}
    for name, text in (("bf16_file_path", bf16), ("fp32_file_path", fp32)):
        if text:
            file = tmp_path / f"{name}.txt"
            file.write_text(text)
            paths[name] = str(file)
    hmp.convert(**paths, **options)


def both(*shape, seed=0):
    """The same numbers in bf16 and in f32."""
    narrow = matrix(*shape, seed=seed).to(BF16)
    return narrow, narrow.to(FP32)


def cast_nodes(tensor):
    """How many casts are in the graph of autograd that leads to a tensor."""
    found, todo, seen = 0, [tensor.grad_fn], set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        found += node.name() == "ToCopyBackward0"
        todo += [before for before, _ in node.next_functions]
    return found


def test_signature_is_the_guides():  # HMP-3
    parameters = inspect.signature(hmp.convert).parameters
    assert {name: p.default for name, p in parameters.items()} == {
        "opt_level": "O1",
        "bf16_file_path": "",
        "fp32_file_path": "",
        "isVerbose": False,
    }


def test_default_lists_are_the_guides():  # HMP-13, HMP-14
    assert list(lists.BF16) == GUIDE_BF16
    assert list(lists.FP32) == GUIDE_FP32


def default_calls():
    x, w, image, kernel = matrix(4, 4), matrix(4, 4, seed=1), matrix(1, 2, 5, 5), matrix(3, 2, 3, 3)
    target = torch.tensor([0, 1, 2, 3])
    return {
        "addmm": lambda: torch.addmm(x, x, w),
        "bmm": lambda: x[None].bmm(w[None]),
        "conv1d": lambda: F.conv1d(image[:, :, 0], kernel[:, :, 0]),
        "conv2d": lambda: nn.Conv2d(2, 3, 3)(image),
        "conv3d": lambda: torch.conv3d(image[:, :, None], kernel[:, :, None]),
        "dot": lambda: torch.dot(x[0], w[0]),
        "mm": lambda: x.mm(mat2=w),
        "mv": lambda: x.mv(w[0]),
        "batch_norm": lambda: nn.BatchNorm2d(2)(image.to(BF16)),
        "cross_entropy": lambda: F.cross_entropy(x.to(BF16), target),
        "log_softmax": lambda: x.to(BF16).log_softmax(1),
        "softmax": lambda: F.softmax(x.to(BF16), 1),
        "nll_loss": lambda: F.nll_loss(x.to(BF16), target),
        "topk": lambda: torch.topk(x.to(BF16), 2).values,
    }


@pytest.mark.parametrize("name", [*GUIDE_BF16, *GUIDE_FP32])
def test_default_lists_decide(name):  # HMP-6, HMP-17
    call = default_calls()[name]
    torch.manual_seed(0)
    plain = call()
    hmp.convert()
    torch.manual_seed(0)
    cast = call()
    assert cast.dtype is (BF16 if name in GUIDE_BF16 else FP32)
    assert plain.dtype is (FP32 if name in GUIDE_BF16 else BF16) or name == "batch_norm"
    assert_close(cast.float(), plain.float(), 2e-2, 5e-2)


def test_products_are_those_of_rounded_inputs():
    x, w = matrix(8, 8), matrix(8, 8, seed=1)
    hmp.convert()
    assert torch.equal(x.mm(w), torch.matmul(x.to(BF16), w.to(BF16)))


@pytest.mark.parametrize("first", [BF16, FP32])
def test_ops_in_no_list_follow_their_first_input(first):  # HMP-7
    x, y = matrix(3, 4).to(first), matrix(3, 4, seed=1).to(FP32 if first is BF16 else BF16)
    hmp.convert()
    assert F.mse_loss(x, y).dtype is first
    assert torch.matmul(x, y.T).dtype is first
    assert torch.equal(F.mse_loss(x, target=y), ((x - y.to(first)) ** 2).mean())
    assert torch.tensor([1, 2]).mul(2).dtype is torch.int64


@pytest.mark.parametrize(
    "op",
    [
        lambda x, y: x + y,
        lambda x, y: torch.sub(x, y),
        lambda x, y: torch.cat([x, y]),
        lambda x, y: torch.stack((x, y)),
        lambda x, y: x / y,
        lambda x, y: torch.where(x > 0, x, y),
    ],
    ids=["add", "sub", "cat", "stack", "div", "where"],
)
def test_widest_type_of_several_inputs(op):  # HMP-8
    narrow, wide = both(3, 3)
    hmp.convert()
    assert op(narrow, narrow).dtype is BF16
    assert op(narrow, wide).dtype is FP32
    assert op(wide, narrow).dtype is FP32


def test_lists_win_over_the_widest_type(tmp_path):  # HMP-9
    narrow, wide = both(3, 3)
    convert_with(tmp_path, bf16="add\n", fp32="sub\n")
    assert (wide + wide).dtype is BF16
    assert (narrow - narrow).dtype is FP32
    assert torch.cat([narrow, wide]).dtype is FP32  # it is in neither


def test_in_place_ops_keep_the_type_of_what_they_write(tmp_path):  # HMP-10, HMP-12
    narrow, wide = both(3, 3)
    convert_with(tmp_path, bf16="add\nmul_", fp32="sub\ntruediv")
    for x, other in ((narrow, wide), (wide, narrow)):
        given, wanted = x.clone(), x.clone()
        address = given.data_ptr()
        given += other
        given.sub_(other).mul_(other)
        given /= other.abs() + 1
        assert given.dtype is x.dtype and given.data_ptr() == address
        with hmp.disable_casts():
            cast = other.to(x.dtype)
            wanted.add_(cast).sub_(cast).mul_(cast).div_((other.abs() + 1).to(x.dtype))
        assert torch.equal(given, wanted)
    index = torch.tensor([2, 0, 1])
    assert torch.equal(wide.clone().index_copy_(0, index, narrow), wide[torch.tensor([1, 2, 0])])
    assert torch.arange(3).add_(1).tolist() == [1, 2, 3]


def test_an_op_in_both_lists_is_refused(tmp_path):  # HMP-12
    with pytest.raises(ValueError, match="add in the bf16 list and in the fp32 list"):
        convert_with(tmp_path, bf16="add mm", fp32="add softmax")


def test_running_statistics_are_written():
    layer, plain = nn.BatchNorm1d(4), nn.BatchNorm1d(4)
    x = matrix(8, 4).to(BF16)
    plain(x.float())
    hmp.convert()
    assert layer(x).dtype is FP32
    assert torch.equal(layer.running_mean, plain.running_mean)


@pytest.mark.parametrize("text", ["\n".join, ", ".join, lambda names: str(list(names))])
def test_files_replace_the_lists(tmp_path, text):  # HMP-15, HMP-16
    convert_with(tmp_path, text(RESNET_BF16.split()), text(RESNET_FP32.split()))
    x = matrix(4, 4)
    assert {F.relu(x).dtype, F.linear(x, x).dtype, x.t().dtype, x.mm(x).dtype} == {BF16}
    assert F.avg_pool2d(x[None], 2).dtype is BF16 and nn.MaxPool2d(2)(x[None]).dtype is BF16
    assert F.conv1d(x[None], x[None]).dtype is FP32  # no longer in the bf16 list
    assert nn.BatchNorm1d(4)(x.to(BF16)).dtype is BF16  # nor this in the other one
    assert F.softmax(x.to(BF16), 1).dtype is FP32


def test_files_that_cannot_be_read_and_names_that_nobody_has(tmp_path, caplog):
    with pytest.raises(ValueError, match="fp32_file_path='/no/such.txt' cannot be read"):
        hmp.convert(fp32_file_path="/no/such.txt")
    convert_with(tmp_path, bf16="mm embedding_bag_sum_fwd roi_align")
    (line,) = [r.message for r in caplog.records if "ignores names" in r.message]
    assert line.endswith(": embedding_bag_sum_fwd, roi_align")
    with pytest.raises(ValueError, match='opt_level=\'O3\'; use "O1" or "O2"'):
        hmp.convert("O3")


def test_o2(tmp_path, told):  # HMP-18
    convert_with(tmp_path, bf16="relu", opt_level="O2")
    assert told() == ["a list of ops in hmp.convert has no effect: O2 has lists of its own"]
    narrow, wide = both(4, 4)
    for op in (torch.mm, F.linear, lambda x, y: torch.addmm(x, x, y), lambda x, _: x.mv(x[0])):
        assert op(wide, wide).dtype is BF16
    assert F.conv_transpose1d(wide[None], wide[:, :, None]).dtype is BF16
    for op in (torch.add, torch.matmul, F.mse_loss, lambda x, _: F.relu(x), lambda x, _: x.sum()):
        assert op(narrow, narrow).dtype is FP32
    assert narrow.clone().add_(wide).dtype is BF16


def test_disable_casts():  # HMP-4
    x = matrix(3, 3)
    hmp.convert()
    with hmp.disable_casts():
        with hmp.disable_casts():
            assert x.mm(x).dtype is FP32
        assert x.mm(x).dtype is FP32
    assert x.mm(x).dtype is BF16
    with pytest.raises(KeyError), hmp.disable_casts():
        raise KeyError
    assert x.mm(x).dtype is BF16


def test_types_that_are_never_cast():  # HMP-5
    hmp.convert()
    for dtype in (torch.float64, torch.float16, torch.int64):
        x = torch.ones(2, 2).to(dtype)
        assert x.mm(x).dtype is dtype
    x, out = matrix(2, 2), torch.empty(2, 2)
    assert torch.mm(x, x, out=out) is out and out.dtype is FP32


def test_functions_of_functions():
    """Functions of torch.nn.functional that are made of others in Python follow their parts."""
    layer, x = nn.MultiheadAttention(8, 2), matrix(3, 1, 8)
    plain, _ = layer(x, x, x)
    hmp.convert()
    cast, _ = layer(x, x, x)
    assert cast.dtype is BF16
    assert_close(cast.float(), plain, 5e-2, 5e-2)


# The lines of the guide, of which the name of the class and the addresses are PyTorch's.
LINES = r"""casting  <method '__mul__' of 'torch\._C\.TensorBase' objects>  to  to_fp32
casting  <built-in method embedding of type object at 0x[0-9a-f]+> to_fp32
casting  <function layer_norm at 0x[0-9a-f]+> to_bf16
casting  <function dropout at 0x[0-9a-f]+> to_bf16
casting  <method 'matmul' of 'torch\._C\.TensorBase' objects> to_bf16
casting  <method '__iadd__' of 'torch\._C\.TensorBase' objects>  to  to_bf16
"""


def test_verbose_lines(tmp_path, capsys):  # HMP-19, HMP-20
    narrow, wide = both(4, 4)

    def calls():
        wide * narrow
        F.embedding(torch.tensor([1]), wide)
        F.layer_norm(wide, [4])
        F.dropout(wide, 0.5)
        wide.matmul(wide)
        narrow.clone().__iadd__(wide)

    convert_with(tmp_path, bf16="layer_norm dropout matmul", fp32="embedding", isVerbose=True)
    calls()
    with hmp.disable_casts():
        calls()
    assert re.fullmatch(LINES, capsys.readouterr().out)
    wide.mul(wide)
    assert capsys.readouterr().out.startswith("casting  <method 'mul' of ")
    hmp.convert()
    calls()
    assert capsys.readouterr().out == ""


def test_casts_are_nodes_of_autograd():  # HMP-21
    layer, x = nn.Linear(4, 4), matrix(2, 4)
    assert cast_nodes(layer(x)) == 0
    hmp.convert()
    assert cast_nodes(layer(x)) == 2  # of weight and bias: x has no gradient
    layer(x).sum().backward()
    assert layer.weight.grad.dtype is FP32
