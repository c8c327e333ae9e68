"""One engine of vLLM without a server: answers prompts greedily and compares the answers with
transformers. It is given a Case as JSON and prints its result as JSON in its last line."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from quantized_models import quantize
from small_models import judge, make_model, make_prompts


@dataclass(frozen=True)
class Case:
    """`engine` are arguments of vllm.LLM. `rounds`: how often the same prompts are answered; of a
    second round, blocks of the first one may be found in the prefix cache. `shared`: tokens that
    all prompts begin with. `quantized` is a form of quantized_models.py."""

    family: str
    prompts: int = 32
    longest: int = 300
    tokens: int = 16
    rounds: int = 2
    shared: int = 0
    quantized: str = ""
    engine: dict[str, Any] = field(default_factory=dict)


_ENGINE: dict[str, Any] = {
    "dtype": "bfloat16",
    "max_model_len": 512,
    "max_num_seqs": 8,
    "num_gpu_blocks_override": 64,
    "enforce_eager": True,
}


def run(case: Case, models: Path) -> dict[str, Any]:
    path = reference = make_model(case.family, models)
    if case.quantized:
        path, reference = quantize(path, case.quantized)
    prompts = make_prompts(case.prompts, case.longest)
    prompts = [prompts[1][: case.shared] + prompt[: 400 - case.shared] for prompt in prompts]

    from vllm import LLM, SamplingParams

    begin = time.perf_counter()
    llm = LLM(model=str(path), **(_ENGINE | case.engine))
    ready = time.perf_counter() - begin
    greedy = SamplingParams(temperature=0, max_tokens=case.tokens, ignore_eos=True)
    seconds = []
    for _ in range(case.rounds):
        begin = time.perf_counter()
        outputs = llm.generate([{"prompt_token_ids": p} for p in prompts], greedy, use_tqdm=False)
        seconds.append(time.perf_counter() - begin)
    answers = [list(output.outputs[0].token_ids) for output in outputs]
    assert all(len(answer) == case.tokens for answer in answers), "an answer is too short"
    return {
        **asdict(judge(reference, prompts, answers)),
        "ready_s": round(ready, 1),
        "tokens_per_s": [round(case.prompts * case.tokens / s, 1) for s in seconds],
        "cached_tokens": sum(output.num_cached_tokens or 0 for output in outputs),
        **_programs(),
    }


def _programs() -> dict[str, int]:
    """How many programs of compiled graphs were compiled and found, and how many of their parts
    run eagerly."""
    if not _on_hpu():
        return {}
    from habana_frameworks.torch.dynamo import report

    counts = report()
    return {name: getattr(counts, name) for name in ("compilations", "hits", "eager_segments")}


def _on_hpu() -> bool:
    from vllm.platforms import current_platform

    return current_platform.device_type == "hpu"


def main() -> None:
    case = Case(**json.loads(sys.argv[1]))
    print(json.dumps(run(case, Path(os.environ["CLIENT_MODELS"]))), flush=True)


if __name__ == "__main__":
    main()
