"""_torch.Program: binding of inputs and outputs, eager steps, aliasing, errors."""

from __future__ import annotations

import ast
import gc
import threading

import program_bytes as pb
import pytest
import torch
from paths import ROOT
from program_bytes import Eager, Program, Ref, Spec

import habana_frameworks.torch  # noqa: F401  registers the device
from habana_frameworks.torch import native

_torch = native.torch_module()
F23 = Spec("f32", (2, 3))


def load(program: Program):
    return _torch.Program(program.encode(), program.recipes, "hand_made")


def one_op(step: Eager, inputs=1, spec=F23, out=F23, mutated=False) -> Program:
    """Tensors 0..inputs-1 are the inputs, tensor `inputs` is the result of the op."""
    return Program(
        inputs=[(spec, mutated and i == 0, False) for i in range(inputs)],
        tensors=[(pb.INPUT, i, spec) for i in range(inputs)] + [(pb.EAGER, 0, out)],
        steps=[step],
        outputs=[(pb.TENSOR, inputs)],
    )


def randn(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, device="hpu")


def test_eager_step_and_properties():
    program = load(one_op(Eager("aten::lgamma", [Ref(0)], [1])))
    x = randn(2, 3)
    before = _torch.launch_counters()["eager_ops"]
    (y,) = program(x)
    assert y.device.type == "hpu" and torch.equal(y.cpu(), x.cpu().lgamma())
    assert _torch.launch_counters()["eager_ops"] - before == 1
    assert (program.name, program.launch_count, program.eager_count) == ("hand_made", 0, 1)
    assert program.call_count == 1 and program.node_count == 1 and not program.mutates_inputs
    assert "lgamma" in program.text()


def test_names_that_are_no_text_are_shown():
    program = one_op(Eager("aten::lgamma", [Ref(0)], [1]))
    program.function = "caf\udce9"
    assert "caf\N{REPLACEMENT CHARACTER}: 1 nodes" in load(program).text()


def test_a_program_of_another_version_is_refused():
    data = bytearray(one_op(Eager("aten::lgamma", [Ref(0)], [1])).encode())
    data[8] = 1
    with pytest.raises(
        _torch.DeviceError,
        match="UNIMPLEMENTED: program old: program version 1, this build reads 4",
    ):
        _torch.Program(bytes(data), [], "old")


def test_every_kind_of_argument():
    step = Eager("aten::add", [Ref(0), Ref(1), 2], [2], overload="Tensor")
    x, y = randn(2, 3), randn(2, 3)
    torch.testing.assert_close(load(one_op(step, 2))(x, y)[0], x + 2 * y)
    cat = Eager("aten::cat", [[Ref(0), Ref(1)], -1], [2])
    assert torch.equal(
        load(one_op(cat, 2, out=Spec("f32", (2, 6))))(x, y)[0], torch.cat([x, y], -1)
    )
    index = Eager("aten::index", [Ref(0), [None, Ref(1)]], [2], overload="Tensor")
    program = one_op(index, 2, out=Spec("f32", (2, 2)))
    program.inputs[1] = (Spec("i64", (2,)), False, False)
    program.tensors[1] = (pb.INPUT, 1, Spec("i64", (2,)))
    where = torch.tensor([2, 0], device="hpu")
    assert torch.equal(load(program)(x, where)[0], x[:, where])
    gelu = Eager("aten::gelu", [Ref(0), "tanh"], [1])
    torch.testing.assert_close(
        load(one_op(gelu))(x)[0], torch.nn.functional.gelu(x, approximate="tanh")
    )
    mean = Eager("aten::mean", [Ref(0), [1], True], [1], overload="dim")
    torch.testing.assert_close(
        load(one_op(mean, out=Spec("f32", (2, 1))))(x)[0], x.mean(1, keepdim=True)
    )


def test_outputs_of_every_kind():
    program = Program(
        inputs=[(F23, False, False), (None, False, False)],
        tensors=[(pb.INPUT, 0, F23)],
        steps=[],
        outputs=[
            (pb.AS_INPUT, 0),
            (pb.INPUT_VIEW, 0, Spec("f32", (2,), (3,), 1)),
            (pb.NONE, 0),
            (pb.INT, 0, 7),
            (pb.FLOAT, 0, 2.5),
            (pb.BOOL, 0, True),
        ],
    )
    x = randn(4, 6)[1:3, 2:5].contiguous()
    same, view, none, integer, real, boolean = load(program)(x, 5)
    assert same is x
    assert view.data_ptr() == x.data_ptr() + 4 and torch.equal(view.cpu(), x.cpu()[:, 1])
    assert view._is_view() and view._base is x
    assert none is None and integer == 7 and real == 2.5 and boolean is True


def test_views_of_inputs_with_offset_and_grad():
    program = load(
        Program(
            inputs=[(Spec("f32", (2, 3), (6, 1)), False, False)],
            tensors=[],
            steps=[],
            outputs=[(pb.INPUT_VIEW, 0, Spec("f32", (3,), (1,), 6))],
        )
    )
    base = torch.arange(24.0, device="hpu").view(4, 6)
    x = base[1:3, 2:5].requires_grad_()
    (view,) = program(x)
    assert view.cpu().tolist() == [14, 15, 16]
    view.sum().backward()
    assert x.grad.cpu().tolist() == [[0, 0, 0], [1, 1, 1]]


def test_outputs_over_one_buffer_share_storage():
    program = Program(
        inputs=[(F23, False, False)],
        tensors=[
            (pb.INPUT, 0, F23),
            (pb.BUFFER, 0, F23),
            (pb.BUFFER, 0, Spec("f32", (3,), (1,), 3)),
            (pb.EAGER, 0, F23),
        ],
        buffers=[24],
        steps=[Eager("aten::copy_", [Ref(1), Ref(0)], [3])],
        outputs=[(pb.TENSOR, 1), (pb.TENSOR, 2)],
    )
    x = randn(2, 3)
    whole, row = load(program)(x)
    assert torch.equal(whole, x) and torch.equal(row, x[1])
    row.zero_()
    assert whole[1].sum().item() == 0
    assert whole.untyped_storage().data_ptr() == row.untyped_storage().data_ptr()


def test_constants_are_not_spoilt_by_users():
    data = torch.arange(6.0)
    program = load(
        Program(
            inputs=[],
            constants=[(F23, data.numpy().tobytes())],
            tensors=[(pb.CONSTANT, 0, F23)],
            steps=[],
            outputs=[(pb.TENSOR, 0)],
        )
    )
    program()[0].zero_()
    assert torch.equal(program()[0].cpu(), data.view(2, 3))


def test_mutated_inputs_bump_versions():
    program = load(one_op(Eager("aten::add_", [Ref(0), 1], [1], overload="Scalar"), mutated=True))
    x = torch.zeros(2, 3, device="hpu")
    version = x._version
    program(x)
    assert x.sum().item() == 6 and x._version > version and program.mutates_inputs
    with torch.inference_mode():
        y = torch.zeros(2, 3, device="hpu")
        program(y)
    assert y.sum().item() == 6


def test_aliased_mutated_input_is_refused():
    step = Eager("aten::add_", [Ref(0), Ref(1)], [2], overload="Tensor")
    program = load(one_op(step, 2, mutated=True))
    base = torch.zeros(4, 3, device="hpu")
    with pytest.raises(
        _torch.AliasedInputs, match="input 0 is written and shares memory with input 1"
    ):
        program(base[0:2], base[1:3])
    assert base.sum().item() == 0
    program(base[0:2], base[2:4])
    same = randn(2, 3)
    load(one_op(Eager("aten::add", [Ref(0), Ref(1)], [2], overload="Tensor"), 2))(same, same)


def test_inputs_on_the_cpu_are_copied():
    program = one_op(Eager("aten::mul", [Ref(0), Ref(1)], [2], overload="Tensor"), 2)
    program.inputs[1] = (Spec("f32", ()), False, True)
    program.tensors[1] = (pb.INPUT, 1, Spec("f32", ()))
    x = randn(2, 3)
    assert torch.equal(load(program)(x, torch.tensor(3.0))[0], x * 3)


def test_eager_output_is_laid_out_as_the_program_says():
    program = load(one_op(Eager("aten::clone", [Ref(0)], [1]), out=Spec("f32", (2, 3), (1, 2))))
    x = randn(2, 3)
    (y,) = program(x)
    assert y.stride() == (1, 2) and torch.equal(y, x)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: torch.ones(2, 3), "it must be on hpu; given: cpu"),
        (
            lambda: torch.ones(3, 2, device="hpu"),
            r"it must have sizes \[2, 3\]; given: \[3, 2\]",
        ),
        (
            lambda: torch.ones(3, 2, device="hpu").t(),
            r"it must have strides \[3, 1\]; given: \[1, 2\]",
        ),
        (
            lambda: torch.ones(2, 3, device="hpu", dtype=torch.bfloat16),
            "it must have elements of Float; given: BFloat16",
        ),
        (
            lambda: torch.ones(4, dtype=torch.bfloat16),
            r"it must be on hpu; given: cpu, it must have elements of Float; given: BFloat16, "
            r"it must have sizes \[2, 3\]; given: \[4\]",
        ),
        (
            lambda: torch._neg_view(torch.ones(2, 3, device="hpu")),
            r"it must be a plain tensor; given: one that is not yet negated.*",
        ),
        (
            lambda: torch._efficientzerotensor((2, 3), device="hpu"),
            "it must be a plain tensor; given: a zero tensor without memory",
        ),
    ],
)
def test_misfits_are_named(make, text):
    program = load(one_op(Eager("aten::lgamma", [Ref(0)], [1])))
    with pytest.raises(ValueError, match="program hand_made: input 0 does not fit: " + text + "$"):
        program(make())


def test_a_batched_tensor_is_named():
    program = load(one_op(Eager("aten::lgamma", [Ref(0)], [1])))
    with pytest.raises(ValueError, match="given: a batched tensor of vmap"):
        torch.vmap(lambda x: program(x)[0])(torch.ones(4, 2, 3, device="hpu"))


def test_wrong_calls():
    program = load(one_op(Eager("aten::lgamma", [Ref(0)], [1])))
    with pytest.raises(TypeError, match="takes 1 inputs, 0 given"):
        program()
    with pytest.raises(TypeError, match="input 0 must be a tensor, not int"):
        program(3)
    with pytest.raises(TypeError, match="positional"):
        program(x=3)
    with pytest.raises(_torch.DeviceError, match="no operator aten::no_such_op"):
        load(one_op(Eager("aten::no_such_op", [Ref(0)], [1])))
    with pytest.raises(_torch.DeviceError, match="aten::add lacks argument other"):
        load(one_op(Eager("aten::add", [Ref(0)], [1], overload="Tensor")))
    with pytest.raises(_torch.DeviceError, match="DATA_LOSS"):
        _torch.Program(b"HPUPROG\0 damaged", [], "damaged")
    with pytest.raises(RuntimeError, match="1 recipes given, 0 needed"):
        _torch.Program(one_op(Eager("aten::lgamma", [Ref(0)], [1])).encode(), [b"x"])


def test_memory_is_given_back():
    program = load(one_op(Eager("aten::lgamma", [Ref(0)], [1])))
    x = randn(2, 3)
    program(x)
    gc.collect()
    in_use = torch.hpu.memory_allocated()
    for _ in range(100):
        program(x)
    assert torch.hpu.memory_allocated() == in_use


def test_calls_from_threads():
    program = load(one_op(Eager("aten::mul", [Ref(0), Ref(0)], [1], overload="Tensor")))
    wrong = []

    def work(seed: int) -> None:
        x = torch.full((2, 3), float(seed), device="hpu")
        results = [program(x)[0].sum().item() for _ in range(50)]
        wrong.extend(value for value in results if value != 6 * seed * seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert program.call_count == 200


def test_the_stub_names_what_the_module_has():
    stub = ROOT / "backend/torch/_torch.pyi"
    tree = ast.parse(stub.read_text())
    declared = {
        node.target.id if isinstance(node, ast.AnnAssign) else node.name
        for node in tree.body
        if isinstance(node, ast.AnnAssign | ast.FunctionDef | ast.ClassDef)
    }
    assert declared == {name for name in dir(_torch) if not name.startswith("_")}
