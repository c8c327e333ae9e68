"""These are the first steps of a new user; in_empty_root.sh runs them."""

import importlib.metadata
import json
import subprocess

import torch

ones = torch.ones(2, device="hpu")
assert ones.sum().item() == 2.0, ones

model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)).eval()
inputs = torch.randn(3, 8)
with torch.no_grad():
    expected = model(inputs)
    compiled = torch.compile(model.to("hpu"), backend="hpu_backend")
    torch.testing.assert_close(compiled(inputs.to("hpu")).cpu(), expected)

from habana_frameworks.torch import dynamo  # noqa: E402

report = dynamo.report()
assert (report.recipes, report.compilations, report.eager_segments) == (1, 1, 0), report

status = subprocess.run(["hpu-compile", "status", "--json"], capture_output=True, check=True)
assert json.loads(status.stdout)["running"], status.stdout
assert importlib.metadata.version("habana-torch-plugin") == "1.24.1"
table = subprocess.run(["hl-smi"], capture_output=True, check=True, text=True)
assert "emulated" in table.stdout, table.stdout

from habana_dataloader import HabanaDataLoader, _native  # noqa: E402

assert _native.levels()[0] == "v2"
batches = HabanaDataLoader(torch.utils.data.TensorDataset(ones.cpu()), batch_size=2)
assert batches.fallback_activated and next(iter(batches))[0].tolist() == [1.0, 1.0]
print(f"a compiled model gives eager's result; {report}")
