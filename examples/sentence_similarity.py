#!/usr/bin/env python3
"""Sentence embedding of real text with real weights on the hpu device, compiled to recipes.

Prints the nearest sentences for a few queries, that they equal CPU eager's, and a table of what the
compiler did and how long it took. A second run finds every program in the store. `--model NAME`
runs one of the other models (random weights) and prints the same table.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from models import MODELS, ModelCase, largest_error, make_model, outputs_of, to_device
from sentence_encoder import SentenceEncoder, load_tokenizer, weights_folder
from sentences import QUERIES, SENTENCES

import habana_frameworks.torch  # noqa: F401  (brings the hpu device)
from habana_frameworks.torch.dynamo import report

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
# As a share of the output's range.
TOLERANCE = {"f32": 1e-4, "bf16": 2e-2}


def sentence_case() -> ModelCase:
    folder = weights_folder()
    tokenizer = load_tokenizer(folder)

    def inputs(_: int) -> dict[str, torch.Tensor]:
        texts = [*SENTENCES, *QUERIES]
        encoded = tokenizer(texts, padding=True, return_tensors="pt")
        return {name: encoded[name] for name in ("input_ids", "attention_mask")}

    return ModelCase("sentence-similarity", SentenceEncoder(folder).eval(), inputs)


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """The result and the milliseconds that it took, with the work of the device."""
    started = time.perf_counter()
    result = function()
    torch.hpu.synchronize()
    return result, (time.perf_counter() - started) * 1e3


def steady_ms(function: Callable[[], Any], seconds: float) -> float:
    """Median milliseconds of repeated calls."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        times.append(timed(function)[1])
    return statistics.median(times)


def nearest(embeddings: torch.Tensor) -> list[tuple[str, str, float]]:
    """(query, nearest sentence, cosine similarity)."""
    sentences, queries = embeddings[: len(SENTENCES)], embeddings[len(SENTENCES) :]
    similarity = queries @ sentences.t()
    best = similarity.argmax(1).tolist()
    return [
        (query, SENTENCES[index], float(similarity[row, index]))
        for row, (query, index) in enumerate(zip(QUERIES, best, strict=True))
    ]


def in_f32(model: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """CPU eager's results, computed in f32 from the weights and inputs in their own type."""
    with torch.inference_mode():
        wide = copy.deepcopy(model).to("cpu").float()
        return outputs_of(wide(**to_device(inputs, "cpu", torch.float32)))


def run(case: ModelCase, batch: int, dtype_name: str, seconds: float) -> dict[str, Any]:
    """One model, eagerly on the CPU and compiled on the device."""
    dtype = DTYPES[dtype_name]
    model = case.model.to(dtype)
    on_cpu = to_device(case.inputs(batch), "cpu", dtype)
    with torch.inference_mode():
        eager = outputs_of(model(**on_cpu))
        eager_ms = steady_ms(lambda: model(**on_cpu), seconds)
        on_device = to_device(on_cpu, "hpu", dtype)
        compiled = torch.compile(model.to("hpu"), backend="hpu_backend")
        got, first_ms = timed(lambda: outputs_of(compiled(**on_device)))
        compiled_ms = steady_ms(lambda: compiled(**on_device), seconds)
    summary = report()
    # How CPU eager rounds bf16 depends on the CPU, so f32 with the same weights is the reference.
    expected = eager if dtype is torch.float32 else in_f32(model, on_cpu)
    error = largest_error(got, expected)
    allowed = max(TOLERANCE[dtype_name], largest_error(eager, expected))
    return {
        "model": case.name,
        "dtype": dtype_name,
        "batch": batch,
        "graphs": len(summary.graphs),
        "recipes": summary.recipes,
        "eager segments": summary.eager_segments,
        "compiled": summary.compilations,
        "from the store": summary.hits,
        "first output, ms": first_ms,
        "of that compiling, ms": sum(g.compile_ms for g in summary.graphs),
        "steady state, ms": compiled_ms,
        "CPU eager, ms": eager_ms,
        "speed-up": eager_ms / compiled_ms,
        "largest error / range": error,
        "within tolerance": error <= allowed,
        "eager reasons": summary.eager_reasons,
        "embeddings": (got[0].float().cpu(), expected[0].float()),
    }


def print_nearest(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Prints the answers; True if CPU eager gives the same ones."""
    answers, reference = nearest(ours), nearest(theirs)
    for query, sentence, similarity in answers:
        print(f"  {query}\n    -> {sentence}  ({similarity:.3f})")
    same = [a[:2] for a in answers] == [r[:2] for r in reference]
    print(f"\nCPU eager finds {'the same sentences' if same else 'OTHER SENTENCES'}.\n")
    return same


def print_table(figures: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=f"{figures['model']}, {figures['dtype']}", show_header=False)
    for name, value in figures.items():
        if name in ("model", "dtype") or (name == "eager reasons" and not value):
            continue
        text = f"{value:.3g}" if isinstance(value, float) and value < 0.1 else str(value)
        if isinstance(value, float) and value >= 0.1:
            text = f"{value:.2f}" if value < 100 else f"{value:.0f}"
        if isinstance(value, dict):
            text = "; ".join(value)
        shown = "yes" if value is True else "NO" if value is False else text
        table.add_row(name, escape(shown))
    Console().print(table)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", choices=MODELS, help="another model, with random weights")
    parser.add_argument("--batch", type=int, default=1, help="batch size with --model")
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="f32")
    parser.add_argument("--small", action="store_true", help="tiny configuration of --model")
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="of each steady-state measurement"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON only")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    if arguments.model:
        case, batch = make_model(arguments.model, arguments.small), arguments.batch
    else:
        case, batch = sentence_case(), len(SENTENCES) + len(QUERIES)
    figures = run(case, batch, arguments.dtype, arguments.seconds)
    ours, theirs = figures.pop("embeddings")
    good = bool(figures["within tolerance"])
    if not arguments.model:
        with contextlib.redirect_stdout(sys.stderr if arguments.json else sys.stdout):
            good &= print_nearest(ours, theirs)
    if arguments.json:
        print(json.dumps(figures))
    else:
        print_table(figures)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
