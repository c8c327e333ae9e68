#!/usr/bin/env python3
"""A tour in ten minutes for somebody who knows PyTorch and no Gaudi.

Run it whole (./dev python examples/tour.py), or cell by cell: editors and Jupyter (with jupytext)
take each "# %%" for the beginning of a cell.
"""

# %% [markdown]
# ## 1. A device like any other
# `import torch` finds the device by itself. Without a Gaudi card it is the emulated Gaudi: a
# library behind the same C interface, which computes on this machine's cores.

# %%
from __future__ import annotations

import time

import torch
from torch import nn

x = torch.arange(6.0, device="hpu").view(2, 3)
print(x @ x.T)
print(torch.accelerator.current_accelerator(), torch.hpu.get_device_name())

# %% [markdown]
# ## 2. Compile a model
# The first call sends the captured graph to a compile server, which starts by itself, and gets back
# a program: recipes and the order in which they are launched. Further calls launch it.

# %%
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256), nn.LayerNorm(256))
model = model.eval().to("hpu")
inputs = torch.randn(64, 256, device="hpu")
compiled = torch.compile(model, backend="hpu_backend")
with torch.no_grad():
    for call in ("first", "second"):
        started = time.perf_counter()
        output = compiled(inputs)
        torch.hpu.synchronize()
        print(f"{call} call: {(time.perf_counter() - started) * 1e3:.1f} ms")
    torch.testing.assert_close(output, model(inputs), rtol=1e-4, atol=1e-4)

# %% [markdown]
# ## 3. What happened?
# The report has one line per graph: whether the store had its program, how many recipes it has,
# what runs eagerly and where the time went. In a notebook the report is a page;
# `hpu-compile report script.py` makes such a page for any script.

# %%
from habana_frameworks.torch import dynamo  # noqa: E402

print(dynamo.report())

# %% [markdown]
# ## 4. What cannot be compiled runs anyway
# Where Dynamo must look at a value, a graph ends and another begins. An operator without a recipe
# runs on the CPU, between two recipes. The result is always that of eager PyTorch.


# %%
@torch.compile(backend="hpu_backend")
def two_graphs(x: torch.Tensor) -> torch.Tensor:
    y = torch.relu(x)
    if y.sum() > 0:  # a value decides
        y = y / y.norm()
    return torch.special.i0(y * 0.5)  # no recipe for this one


with torch.no_grad():
    print(two_graphs(inputs).shape)
for reason, count in dynamo.report().eager_reasons.items():
    print(f"{count} x {reason}")

# %% [markdown]
# ## 5. The second process finds everything ready
# Programs are stored under what they are made of. A new process, another rank or tomorrow's run
# gets them in milliseconds: run this file again, and section 3 says "hit, store". On a shell,
# `hpu-compile ls` lists the store, and `hpu-compile explain KEY` says what a key is made of.

# %% [markdown]
# ## 6. Every shape is a program
# A new shape is compiled at its first call, so a service calls each shape once before the first
# request comes.

# %%
with torch.no_grad():
    for batch in (1, 8, 64):
        compiled(torch.randn(batch, 256, device="hpu"))
print(f"{dynamo.report().compilations} compiled, {dynamo.report().hits} found")

# %% [markdown]
# ## 7. Training
# Training uses the same calls: forward and backward become a recipe each, and so does the
# optimizer's step. `transformers.Trainer` trains unchanged.

# %%
learner = nn.Linear(256, 1).to("hpu")
optimizer = torch.optim.AdamW(learner.parameters(), lr=1e-2)
learn = torch.compile(learner, backend="hpu_backend")
step = torch.compile(optimizer.step, backend="hpu_backend")
for _ in range(20):
    loss = (learn(inputs) - inputs.mean(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    step()
print(f"loss {loss.item():.4f}")

# %% [markdown]
# ## 8. Where does the time go?
# The table shows kernels with their engine, their share of the best that this machine can do, and
# bytes. All times are CPU timings of the emulated device; they say nothing about a Gaudi card.

# %%
from habana_frameworks.torch.utils import profiler  # noqa: E402

with profiler.profile() as profile, torch.no_grad():
    for _ in range(10):
        compiled(inputs)
    torch.hpu.synchronize()
print(profile.report().table(limit=5))
print(f"device memory: {torch.hpu.max_memory_allocated() / 1e6:.1f} MB at most")
