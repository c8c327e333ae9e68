"""One process of the tests of registrations: all cases, with a number written for 41.0.

registration_process.py NUMBER [CASE ...]: prints one JSON object, by case.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from pathlib import Path

import torch

from habana_frameworks.torch.dynamo import report
from habana_frameworks.torch.dynamo.start import journal


def load(number):
    folder = tempfile.mkdtemp(prefix="registrations-")
    (Path(folder) / "registrations_edited").mkdir()
    for source in (Path(__file__).parent / "registration_cases").glob("*.py"):
        edited = Path(folder) / "registrations_edited" / source.name
        edited.write_text(source.read_text().replace("41.0", number))
    sys.path.insert(0, folder)
    return importlib.import_module("registrations_edited")


def as_lists(tensors):
    return [[str(t.dtype), t.detach().double().cpu().tolist()] for t in tensors]


def outcome(run, **options):
    torch._dynamo.reset()
    seen, outcomes = len(report().graphs), len(journal.outcomes())
    try:
        answer = as_lists(run(lambda f: torch.compile(f, backend="hpu_backend", options=options)))
    except Exception as error:
        answer = f"{type(error).__name__}: {error}"
    graphs = report().graphs[seen:]
    return {
        "answer": answer,
        "graphs": [graph.lines()[0] for graph in graphs],
        "reasons": [graph.reason for graph in graphs],
        "starts": [[o.reason, o.not_kept] for o in journal.outcomes()[outcomes:]],
    }


def main(number, *names):
    cases = load(number).CASES
    told = {}
    for name in names or cases:
        run = cases[name]
        told[name] = {
            "want": as_lists(run(lambda f: f)),
            "start": outcome(run, start_without_tracing=True),
            "traced": outcome(run, start_without_tracing=False),
        }
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
