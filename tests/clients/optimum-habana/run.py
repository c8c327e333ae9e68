"""optimum-habana on hpu: generation, training, diffusion and sentence-transformers.

    run.py SOURCES [--list] [CASE ...]

SOURCES is optimum-habana's source tree, for examples/text-generation; the library itself is the one
that is installed. Results are compared with those of transformers and diffusers on the CPU.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from functools import partial
from pathlib import Path

import small_models

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from cases import Case, expect, run  # noqa: E402

_LAZY = {"PT_HPU_LAZY_MODE": "1"}
# Forms of generation: the model, and the script's options.
_GENERATION: dict[str, tuple[str, str, dict[str, str]]] = {
    "generate-eager": ("llama", "", {}),
    "generate-compiled": ("llama", "--torch_compile", {}),
    "generate-graphs": ("llama", "--use_hpu_graphs", _LAZY),
    "generate-gpt2": ("gpt2", "--use_hpu_graphs", _LAZY),
    "generate-reuse-cache": (
        "llama",
        "--use_hpu_graphs --limit_hpu_graphs --reuse_cache --trim_logits --bucket_size 8"
        " --bucket_internal",
        _LAZY,
    ),
    "generate-flash": (
        "llama",
        "--use_hpu_graphs --use_flash_attention --flash_attention_recompute"
        " --flash_attention_causal_mask",
        _LAZY,
    ),
    "generate-beams": ("llama", "--num_beams 3", {}),
    "generate-bf16": ("llama", "--bf16 --use_hpu_graphs --attn_softmax_bf16", _LAZY),
    "generate-sampled": ("llama", "--do_sample --temperature 0.7 --top_p 0.9", {}),
}
# The tokens of these are not the CPU's, by intention.
_OTHER_TOKENS = {"generate-bf16", "generate-sampled"}
_TRAINING: dict[str, tuple[dict[str, object], dict[str, str]]] = {
    "train-eager": ({"use_lazy_mode": False}, {}),
    "train-compiled": ({"use_lazy_mode": False, "torch_compile_backend": "hpu_backend"}, {}),
    "train-lazy": ({"use_lazy_mode": True}, _LAZY),
    "train-graphs": (
        {"use_hpu_graphs_for_training": True, "use_hpu_graphs_for_inference": True},
        _LAZY,
    ),
}


def _generated(output: str) -> list[str]:
    return re.findall(r"^output \d+\.1: \('(.*)',\)$", output, re.MULTILINE)


def _same_texts(model: Path, options: str, output: str) -> None:
    beams = 3 if "--num_beams 3" in options else 1
    expected, found = small_models.cpu_texts(model, beams), _generated(output)
    expect(found == expected, f"generated {found}, and transformers on the CPU {expected}")


def _some_words(output: str) -> None:
    counts = [len(text.split()) for text in _generated(output)]
    wanted = [len(prompt.split()) + small_models.NEW_TOKENS for prompt in small_models.PROMPTS]
    expect(counts == wanted, f"generated texts of {counts} words instead of {wanted}")


def _losses(output: str) -> dict[str, list[float]]:
    lines = (line for line in output.splitlines() if line.startswith('{"name"'))
    return {entry["name"]: entry["losses"] for entry in map(json.loads, lines)}


def _near_losses(expected: dict[str, list[float]], output: str) -> None:
    """FusedAdamW adds its epsilon before the averages' bias is corrected, AdamW after it."""
    found = _losses(output)
    for name, losses in expected.items():
        pairs = zip(losses, found[name], strict=True)
        worst = max(abs(a - b) / abs(a) for a, b in pairs)
        expect(worst < 6e-3, f"{name}: losses {found[name]}, and on the CPU {losses}")


def _generation(sources: Path, models: Path) -> list[Case]:
    folder = sources / "examples" / "text-generation"
    made = []
    for name, (model, options, variables) in _GENERATION.items():
        same = partial(_same_texts, models / model, options)
        check = _some_words if name in _OTHER_TOKENS else same
        command = [
            *("run_generation.py", "--model_name_or_path", models / model, "--use_kv_cache"),
            *("--max_new_tokens", str(small_models.NEW_TOKENS), "--batch_size", "2"),
            *("--warmup", "1", "--n_iterations", "1", "--prompt", *small_models.PROMPTS),
            *options.split(),
        ]
        made.append(Case(name, command, check, folder, variables))
    return made


def _training(models: Path, output: Path) -> list[Case]:
    def command(kind: str, more: object) -> list[str | Path]:
        return [HERE / "train.py", kind, "bert,gpt2", models, output, json.dumps(more)]

    expected: dict[str, list[float]] = {}
    cpu = Case("train-cpu", command("cpu", {}), lambda text: expected.update(_losses(text)))
    check = partial(_near_losses, expected)
    return [
        cpu,
        *(Case(n, command("hpu", more), check, None, v) for n, (more, v) in _TRAINING.items()),
    ]


def main(sources: Path, arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder) / "models"
        small_models.save_models(models)
        cases = [
            *_generation(sources, models),
            *_training(models, Path(folder) / "training"),
            Case("diffusion", [HERE / "diffuse.py"], lambda text: None, None, _LAZY),
            Case("diffusion-eager", [HERE / "diffuse.py"], lambda text: None),
            Case(
                "sentence-transformers", [HERE / "sentences.py", models / "bert"], lambda text: None
            ),
        ]
        # The CPU's losses are what the other cases are compared with.
        if any(name in _TRAINING for name in arguments):
            arguments = ["train-cpu", *arguments]
        return run(cases, arguments)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2:]))
