"""habana_frameworks.torch.gpu_migration. It replaces functions of the process, so each test is a
program of its own; what it prints is compared."""

from __future__ import annotations

import re

import pytest
from processes import output_of, run_python

START = "import torch, habana_frameworks.torch as ht\n"


def run(code, **env):
    """The program's lines, in a process with PT_HPU_GPU_MIGRATION=1."""
    return output_of(START + code, PT_HPU_GPU_MIGRATION="1", **env).stdout.splitlines()


def test_it_is_not_there_unless_it_is_asked_for():
    code = START + (
        "import sys\n"
        "assert not [n for n in sys.modules if 'gpu_migration' in n]\n"
        "assert not torch.cuda.is_available()\n"
        "zeros = torch.zeros\n"
        "assert ht.internal.bridge_config.get_pt_hpu_gpu_migration() is False\n"
        "import habana_frameworks.torch.gpu_migration\n"
        "assert torch.zeros is not zeros and torch.cuda.is_available()\n"
    )
    output_of(code)
    assert run("print(ht.internal.bridge_config.get_pt_hpu_gpu_migration())") == ["True"]


def test_calls_that_take_a_device():
    code = (
        "cuda = torch.device('cuda')\n"
        "like = torch.ones(2)\n"
        "made = [torch.zeros(2, device='cuda'), torch.ones(2, device=cuda),\n"
        "        torch.tensor([1, 2], device='cuda:0'), torch.arange(3, device=cuda),\n"
        "        torch.randn(2, device='cuda'), torch.empty_like(like, device='cuda'),\n"
        "        torch.full((2,), 3, device='cuda'), torch.as_tensor([1.0], device='cuda'),\n"
        "        torch.fft.fftfreq(4, device='cuda'), like.new_zeros(2, device='cuda'),\n"
        "        like.to('cuda'), like.to(cuda, torch.bfloat16), like.to(device='cuda:0'),\n"
        "        like.cuda(), like.cuda(0), like.cuda('cuda:0', non_blocking=True),\n"
        "        like.type('torch.cuda.HalfTensor'), torch.cuda.FloatTensor([1.0])]\n"
        "assert {str(x.device) for x in made} == {'hpu:0'}, made\n"
        "assert made[-2].dtype is torch.float16 and made[11].dtype is torch.bfloat16\n"
        "assert torch.ones(2, device='cpu').to('cpu').device == like.device\n"
        "print(made[0].is_cuda, like.is_cuda, made[0].type(), like.type())\n"
        "layer = torch.nn.Linear(2, 2, device='cuda')\n"
        "moved = [torch.nn.Linear(2, 2).cuda(), torch.nn.Linear(2, 2).to('cuda'),\n"
        "         torch.nn.Linear(2, 2).to(cuda), torch.nn.Linear(2, 2, device='meta')\n"
        "         .to_empty(device='cuda'), layer]\n"
        "assert {m.weight.device.type for m in moved} == {'hpu'}\n"
        "torch.set_default_device('cuda')\n"
        "made = torch.compile(lambda x: x + torch.ones(1))(torch.zeros(1))\n"
        "print(torch.ones(1).device, made.device, torch.ones(1, device='cpu').device)\n"
    )
    assert run(code) == ["True False torch.cuda.FloatTensor torch.FloatTensor", "hpu:0 hpu:0 cpu"]


def test_replaced_functions_are_found_by_their_names(tmp_path):
    """pickle, torch.fx and TorchScript take them like the originals."""
    (tmp_path / "scripted.py").write_text(
        "import torch\n"
        "def function(x: torch.Tensor):\n"
        "    return x + torch.arange(2) + torch.ones(2)\n"
    )
    code = (
        "import pickle, sys\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "import scripted\n"
        "for function in (torch.zeros, torch.fft.fftfreq, torch.Tensor.to):\n"
        "    assert pickle.loads(pickle.dumps(function)) is function\n"
        "traced = torch.fx.symbolic_trace(lambda x: x.to('cuda') + torch.ones(2, device='cuda'))\n"
        "print(traced(torch.ones(2)).device, torch.jit.script(scripted.function)(torch.zeros(2)))\n"
    )
    assert run(code) == ["hpu:0 tensor([1., 2.])"]


def test_profiles_are_of_hpu():
    code = (
        "from torch.profiler import ProfilerActivity as A, profile\n"
        "x = torch.ones(2, device='cuda')\n"
        "for activities in (None, [A.CPU, A.CUDA]):\n"
        "    with profile(activities=activities) as found:\n"
        "        x + 1\n"
        "    print(sorted(a.name for a in found.activities))\n"
        "    assert any(event.key == 'aten::add' for event in found.key_averages())\n"
    )
    done = output_of(START + code, PT_HPU_GPU_MIGRATION="1")
    assert done.stdout.splitlines() == 2 * ["['CPU', 'HPU']"]
    assert "CUDA is not available" not in done.stderr  # PyTorch's warning


def test_other_threads_are_migrated_too():
    code = (
        "import threading\n"
        "found = []\n"
        "thread = threading.Thread(target=lambda: found.append(torch.ones(1, device='cuda')))\n"
        "thread.start(); thread.join()\n"
        "print(found[0].device)\n"
    )
    assert run(code) == ["hpu:0"]


def test_random_numbers_are_those_of_hpu():
    code = (
        "torch.cuda.manual_seed(5)\n"
        "a = torch.rand(3, device='cuda')\n"
        "torch.hpu.manual_seed_all(5)\n"
        "assert torch.equal(a.cpu(), torch.rand(3, device='hpu').cpu())\n"
        "state = torch.cuda.get_rng_state()\n"
        "b = torch.rand(3, device='cuda')\n"
        "torch.cuda.set_rng_state(state)\n"
        "assert torch.equal(b.cpu(), torch.rand(3, device='cuda').cpu())\n"
        "generators = [torch.Generator('cuda').manual_seed(7) for _ in range(2)]\n"
        "draws = [torch.rand(3, device='cuda', generator=g).cpu() for g in generators]\n"
        "assert torch.equal(*draws)\n"
        "assert isinstance(generators[0], torch.Generator)\n"
        "assert isinstance(torch.default_generator, torch.Generator)\n"
        "kinds = [generators[0].device.type, torch.Generator().device.type]\n"
        "print(*kinds, torch.cuda.initial_seed())\n"
    )
    assert run(code) == ["hpu cpu 5"]


def test_streams_events_and_memory():
    code = (
        "side = torch.cuda.Stream(device='cuda:0')\n"
        "begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))\n"
        "x = torch.ones(64, device='cuda')\n"
        "side.wait_stream(torch.cuda.current_stream())\n"
        "with torch.cuda.stream(side):\n"
        "    begin.record(); y = x * 2; end.record()\n"
        "torch.cuda.current_stream().wait_stream(side)\n"
        "torch.cuda.synchronize('cuda')\n"
        "assert begin.elapsed_time(end) >= 0 and y.sum().item() == 128\n"
        "assert isinstance(torch.cuda.current_stream(), torch.cuda.Stream)\n"
        "with torch.cuda.device(0), torch.cuda.device('cuda:0'), torch.cuda.device_of(x):\n"
        "    pass\n"
        "torch.cuda.reset_peak_memory_stats()\n"
        "assert torch.cuda.memory_allocated('cuda:0') == torch.hpu.memory_allocated() > 0\n"
        "stats = torch.cuda.memory_stats()\n"
        "assert stats['allocated_bytes.all.current'] == torch.cuda.memory_allocated()\n"
        "assert stats['allocated_bytes.all.peak'] == torch.cuda.max_memory_allocated()\n"
        "found = torch.cuda.get_device_properties(0)\n"
        "assert found.total_memory == torch.cuda.mem_get_info()[1]\n"
        "torch.cuda.empty_cache(); torch.cuda.ipc_collect()\n"
        "with torch.cuda.nvtx.range('part'):\n"
        "    torch.cuda.nvtx.range_push('a'); torch.cuda.nvtx.range_pop()\n"
        "print(torch.cuda.device_count() >= 8, torch.cuda.current_device(), found.name,\n"
        "      torch.cuda.get_device_capability(), torch.cuda.is_bf16_supported())\n"
    )
    assert run(code) == ["True 0 GAUDI2 (0, 0) True"]


def test_hpu_graphs_are_cuda_graphs():
    code = (
        "x = torch.ones(4, device='cuda')\n"
        "graph = torch.cuda.CUDAGraph()\n"
        "with torch.cuda.graph(graph):\n"
        "    y = x * 3\n"
        "x.fill_(2)\n"
        "graph.replay()\n"
        "print(y.sum().item())\n"
    )
    assert run(code) == ["24.0"]


AUTOCAST = """
x = torch.ones(2, 2, device="cuda")
with torch.autocast("cuda", torch.float16):
    found = [(x @ x).dtype, torch.is_autocast_enabled(), torch.is_autocast_enabled("cuda")]
with torch.amp.autocast("cuda", dtype=torch.bfloat16):
    found.append((x @ x).dtype)
import warnings; warnings.simplefilter("ignore")
with torch.cuda.amp.autocast():
    found.append((x @ x).dtype)
with torch.cuda.amp.autocast(enabled=False):
    found.append((x @ x).dtype)
with torch.autocast("cpu", torch.bfloat16):
    found.append((torch.ones(2, 2) @ torch.ones(2, 2)).dtype)
assert found == [torch.bfloat16, True, True, *2 * [torch.bfloat16], torch.float32, torch.bfloat16]
model = torch.nn.Linear(2, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for scaler in (torch.amp.GradScaler("cuda"), torch.amp.GradScaler(), torch.cuda.amp.GradScaler()):
    loss = model(x).sum()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert not scaler.is_enabled() and scaler.scale(loss) is loss
print(torch.get_autocast_gpu_dtype())
"""


def test_autocast_and_scalers():
    assert run(AUTOCAST) == ["torch.bfloat16"]


def test_checkpoints_of_a_gpu(tmp_path):
    code = (
        "import io\n"
        "saved = io.BytesIO(); torch.save({'w': torch.ones(2, device='cuda')}, saved)\n"
        "def load(where=None):\n"
        "    saved.seek(0); return torch.load(saved, map_location=where)['w'].device.type\n"
        "print(load(), load('cuda'), load(torch.device('cuda:0')), load('cpu'),\n"
        "      load({'cpu': 'cuda:0'}), load(lambda storage, _: storage))\n"
        "restored = torch.serialization.default_restore_location(torch.ones(1).untyped_storage(),\n"
        "                                                         'cuda:0')\n"
        "print(restored.device)\n"
    )
    assert run(code) == ["hpu hpu hpu cpu hpu cpu", "hpu:0"]


COMPILED = """
layer = torch.nn.Linear(4, 4).cuda()

@torch.compile(fullgraph=True)
def function(x):
    y = torch.ones(4, 4, device="cuda") + torch.arange(4, device=torch.device("cuda"))
    if x.is_cuda and torch.cuda.is_available():
        y = y * (2 + torch.cuda.current_device())
    with torch.autocast("cuda"):
        product = layer(y)
    return product, torch.zeros_like(x, device="cuda") + y.cuda() + x.to("cuda")

def check():
    x = torch.full((4, 4), 3.0, device="cuda")
    product, rest = function(x)
    wanted = (torch.ones(4, 4) + torch.arange(4)) * 2
    assert torch.equal(rest.cpu(), wanted + 3), rest
    exact = torch.nn.functional.linear(wanted, layer.weight.cpu(), layer.bias.cpu())
    assert product.dtype is torch.bfloat16 and product.requires_grad
    assert torch.allclose(product.float().cpu(), exact, 2e-2, 2e-2)
    (graph,) = ht.dynamo.report().graphs
    assert (graph.reason, graph.eager_nodes) == ("", 0), graph
    print(graph.origin)

torch.manual_seed(0)
check()
torch._dynamo.reset()  # it imports modules that look for a GPU
import torch._inductor.cudagraph_trees
"""


def test_compiled_code(private_cache):
    """The default backend is hpu_backend; a second process finds the program."""
    for origin in ("compiled", "store"):
        assert run(COMPILED, HPU_CACHE_DIR=str(private_cache)) == [origin]


def test_a_function_compiled_after_others():
    """Dynamo's tables of PyTorch's functions may be older than the migration."""
    code = START + (
        "torch.compile(lambda x: x + torch.zeros(2), backend='eager')(torch.ones(2))\n"
        "import habana_frameworks.torch.gpu_migration\n" + COMPILED
    )
    assert output_of(code).stdout == "compiled\n"


def test_process_groups_and_wrappers():
    code = (
        "import torch.distributed as dist\n"
        "from torch.nn import DataParallel\n"
        "assert DataParallel(torch.nn.Linear(2, 2))(torch.ones(1, 2, device='cuda')).is_cuda\n"
        "print(dist.is_nccl_available() == dist.is_backend_available('hccl'))\n"
        "seen = []\n"
        "def refuse(store, rank, size, timeout):\n"
        "    seen.append('called'); raise RuntimeError('seen')\n"
        "if not dist.is_backend_available('hccl'):\n"
        "    dist.Backend.register_backend('hccl', refuse, devices='hpu')\n"
        "    try:\n"
        "        dist.init_process_group('nccl', 'tcp://127.0.0.1:0', world_size=1, rank=0)\n"
        "    except RuntimeError as error:\n"
        "        print(error, seen)\n"
    )
    lines = run(code)
    assert lines[0] == "True" and lines[1:] in ([], ["seen ['called']"])


def test_what_cannot_be_mapped_says_so():
    code = (
        "def told(call):\n"
        "    try:\n"
        "        call()\n"
        "    except RuntimeError as error:\n"
        "        print(error)\n"
        "told(torch.cuda.cudart)\n"
        "told(lambda: torch.ones(1).to_sparse().to('cuda:9'))\n"
        "told(torch.cuda.utilization)\n"
    )
    runtime, _, utilization = run(code, HPU_EMULATOR_MODULES="8")
    assert runtime == "torch.cuda.cudart has no counterpart on hpu: there is no CUDA runtime"
    assert utilization.endswith("the device does not measure it")


def test_the_history_of_memory_is_the_devices():
    code = (
        "torch.cuda.memory._record_memory_history(max_entries=10)\n"
        "x = torch.ones(1_000_003, device='cuda')\n"
        "(trace,) = torch.cuda.memory._snapshot()['device_traces']\n"
        "print([e['size'] for e in trace if e['action'] == 'alloc'])\n"
        "print(sum(s['total_size'] for s in torch.cuda.memory_snapshot()) "
        "== torch.hpu.memory_reserved())\n"
        "torch.cuda.memory._record_memory_history(enabled=None)\n"
    )
    sizes, adds_up = run(code)
    assert "4000012" in sizes
    assert adds_up == "True"


def test_a_call_that_is_not_mapped_names_the_cure():
    failed = run_python(
        START + "torch.UntypedStorage(4, device='cuda')\n", PT_HPU_GPU_MIGRATION="1"
    )
    assert 'name the device "hpu" (docs/gpu_migration.md' in failed.stderr


LOGGED = """
x = torch.ones(2)
y = x.to("cuda", non_blocking=True)
if torch.cuda.is_available():
    torch.cuda.set_device(0)
torch.manual_seed(3)
x.to("cpu")
"""
ENTRY = (
    r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] (.*):(\d+)\n    \[context\]: (.*)\n    \[(\w+)\]: (.*)\n\n"
)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_the_log(tmp_path, level):
    program = tmp_path / "program.py"
    program.write_text(START + LOGGED)
    code = f"import runpy; runpy.run_path({str(program)!r})"
    environment = {"PT_HPU_GPU_MIGRATION": "1", "GPU_MIGRATION_LOG_LEVEL": str(level)}
    done = output_of(code, HABANA_LOGS=str(tmp_path), **environment)
    (file,) = (tmp_path / "gpu_migration_logs").iterdir()
    assert re.fullmatch(r"gpu_migration_\d+\.log", file.name)
    entries = re.findall(ENTRY, file.read_text())
    ours = [entry[1:] for entry in entries if entry[0] == str(program)]
    assert ours == [
        (
            "4",
            'y = x.to("cuda", non_blocking=True)',
            "hpu_match",
            "torch.Tensor.to(args=(tensor(size=(2,), dtype=torch.float32, device='cpu'), 'cuda'), "
            "kwargs={non_blocking=True}, ) --> torch.Tensor.to(args=(tensor(size=(2,), "
            "dtype=torch.float32, device='cpu'), 'hpu'), kwargs={non_blocking=True})",
        ),
        (
            "5",
            "if torch.cuda.is_available():",
            "hpu_match",
            "torch.cuda.is_available() --> torch.hpu.is_available()",
        ),
        (
            "6",
            "    torch.cuda.set_device(0)",
            "hpu_match",
            "torch.cuda.set_device(args=(0,), kwargs={}, ) --> torch.hpu.set_device()",
        ),
    ]
    others = [entry for entry in entries if "torch.cuda.manual_seed_all" in entry[4]]
    assert bool(others) is (level < 3)  # torch.manual_seed calls it
    assert (file.read_text() in done.stderr) is (level == 1)


def test_no_log_without_a_level(tmp_path):
    assert run(LOGGED, HABANA_LOGS=str(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []
    told = output_of(START, PT_HPU_GPU_MIGRATION="1", GPU_MIGRATION_LOG_LEVEL="9").stderr
    assert "GPU_MIGRATION_LOG_LEVEL='9' is ignored: expected 0" in told


def test_a_dynamo_that_is_different_is_told():
    code = START + (
        "from torch._dynamo.variables.tensor import TensorVariable\n"
        "TensorVariable.method_attr_is_cuda = lambda *arguments: None\n"
        "import habana_frameworks.torch.gpu_migration\n"
        "print(torch.ones(1, device='cuda').device)\n"
    )
    done = output_of(code)
    assert done.stdout == "hpu:0\n"
    assert "GPU migration in full is off with PyTorch" in done.stderr
