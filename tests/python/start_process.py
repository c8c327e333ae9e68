"""One process of the tests of starts: runs a case, with one difference, and reports how its output
came.

start_process.py CASE [DIFFERENCE]        prints one JSON object
start_process.py --serve                  the same for each line "CASE<tab>DIFFERENCE" of its input,
                                          in a fork of a process that has only imported
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import traceback

import start_cases
import start_differences
import torch

TIMEOUT_S = 120


def run(setup, function):
    """The outputs, the gradients and the values of written inputs, on the CPU."""
    args = _cloned(setup.args)
    kwargs = dict(setup.kwargs)
    if not setup.train:
        outputs = [function(*args, **kwargs)]
    else:
        setup.function.zero_grad()
        outputs = [function(*args, **kwargs)]
        outputs[0].square().sum().backward()
        outputs += [p.grad for p in setup.function.parameters() if p.grad is not None]
    outputs += [a for a in args if isinstance(a, torch.Tensor)]
    return [o.detach().cpu().as_subclass(torch.Tensor) for o in outputs]


def _cloned(args):
    """Copies for each run; aliases of one tensor stay aliases."""
    storages = {}
    cloned = []
    for position, value in enumerate(args):
        same = [other for other, before in enumerate(args[:position]) if before is value]
        if same:
            cloned.append(cloned[same[0]])
            continue
        if not isinstance(value, torch.Tensor) or value.requires_grad or vars(value):
            cloned.append(value)
            continue
        address = value.untyped_storage().data_ptr()
        if address not in storages:
            storages[address] = value.untyped_storage().clone()
        made = torch.empty(0, dtype=value.dtype, device=value.device)
        made.set_(storages[address], value.storage_offset(), value.shape, value.stride())
        cloned.append(made if type(value) is torch.Tensor else made.as_subclass(type(value)))
    return cloned


def main(case, name=""):
    change = start_differences.DIFFERENCES.get(name)
    assert change is None or change.case == case
    if change is not None and change.when == "before":
        change.make()
    setup = start_cases.CASES[case]()
    if change is not None and change.when == "after":
        change.make(setup)
    around = change.make if change is not None and change.when == "around" else None
    compiled = torch.compile(
        setup.function,
        backend="hpu_backend",
        options={"start_without_tracing": True, **setup.options},
        **setup.compile_arguments,
    )

    def both():
        return run(setup, compiled), run(setup, setup.function)

    with contextlib.nullcontext() if setup.train else torch.no_grad():
        with around() if around is not None else contextlib.nullcontext():
            got, want = both()
        if name == "another input":
            setup.args = tuple(torch.cat([a, a]) for a in setup.args)
            more = both()
            got, want = got + more[0], want + more[1]
    from habana_frameworks.torch.dynamo import report
    from habana_frameworks.torch.dynamo.start import journal

    print(
        json.dumps(
            {
                "right": len(got) == len(want) and all(map(close, got, want)),
                "answer": [fingerprint(w) for w in want],
                "traced": [bool(outcome.reason) for outcome in journal.outcomes()],
                "reasons": [outcome.reason for outcome in journal.outcomes()],
                "kept": [outcome.not_kept for outcome in journal.outcomes()],
                "modules": sorted(n for n in sys.modules if n.startswith("habana_frameworks.")),
                "report": [graph.lines()[0] for graph in report().graphs],
            }
        )
    )


def fingerprint(tensor):
    flat = tensor.double().flatten()
    weights = torch.arange(1, len(flat) + 1, dtype=torch.float64)
    return f"{tensor.dtype} {tuple(tensor.shape)} {(flat * weights).sum():.4g}"


def close(got, want):
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    tolerance = 2e-2 if want.dtype == torch.bfloat16 else 1e-5
    scale = max(1.0, want.abs().max().item()) if want.numel() else 1.0
    return torch.allclose(got, want, rtol=tolerance, atol=tolerance * scale)


def serve():
    """Forks once per line, so that a change in one process does not affect the others."""
    import torch._dynamo  # noqa: F401

    from habana_frameworks.torch.dynamo.programs.service import service

    for line in sys.stdin:
        if os.fork():
            _, status = os.wait()
            if status:
                print(json.dumps({"failed": f"status {status}"}), flush=True)
            continue
        signal.alarm(TIMEOUT_S)
        service.reset()
        status = 1
        try:
            main(*line.rstrip("\n").split("\t"))
            sys.stdout.flush()
            status = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    serve() if sys.argv[1] == "--serve" else main(*sys.argv[1:])
