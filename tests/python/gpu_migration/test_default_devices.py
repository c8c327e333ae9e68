"""Default devices of migrated programs, each a process of its own."""

from __future__ import annotations

import pytest
from processes import output_of

START = "import torch, habana_frameworks.torch as ht\n"


def run(code):
    return output_of(START + code, PT_HPU_GPU_MIGRATION="1").stdout.splitlines()


@pytest.mark.parametrize(
    "before", ["torch.compile(lambda x: x + torch.ones(1), backend='eager')(torch.ones(1))", ""]
)
def test_default_devices_of_compiled_code_that_was_there_before(before):
    """Dynamo keeps lists of PyTorch's functions from its import, or from the first graph, on."""
    code = (
        "import torch._dynamo.trace_rules as rules\n"
        f"rules.get_torch_obj_rule_map()\n{before}\n"
        "import habana_frameworks.torch.gpu_migration\n"
        "torch.set_default_device('cuda')\n"
        "print(torch.compile(lambda x: x + torch.ones(1))(torch.zeros(1)).device)\n"
    )
    assert output_of(START + code).stdout == "hpu:0\n"


def test_default_devices():
    code = (
        "with torch.device('cuda'):\n"
        "    print(torch.ones(1).device, torch.nn.Linear(1, 1).weight.device)\n"
        "for kind in ('torch.cuda.HalfTensor', torch.cuda.FloatTensor, 'torch.FloatTensor'):\n"
        "    torch.set_default_tensor_type(kind)\n"
        "    print(torch.ones(1).device, torch.ones(1).dtype)\n"
    )
    assert run(code) == [
        "hpu:0 hpu:0",
        "hpu:0 torch.float16",
        "hpu:0 torch.float32",
        "cpu torch.float32",
    ]
