"""vLLM's sampler on hpu: seeds, limits, penalties, frequencies and logarithms of probabilities. It
prints its result as JSON in its last line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from small_models import make_model, make_prompts
from transformers import AutoModelForCausalLM

_DRAWS = 512


# By how much a logit of bf16 arithmetic may be off here.
_OFF = 0.3


class _Reference:
    """The model in f32 on the CPU."""

    def __init__(self, path: Path) -> None:
        self._model = AutoModelForCausalLM.from_pretrained(
            path, dtype=torch.float32, attn_implementation="eager"
        ).eval()

    @torch.no_grad()
    def logits(self, tokens: list[int]) -> torch.Tensor:
        """Returns the logits of the token after these."""
        return self._model(torch.tensor([tokens])).logits[0, -1]

    def gap(self, prompt: list[int], answer: list[int], penalize: Penalty) -> float:
        """How far a token of a greedy answer is below the best one at most, with penalties."""
        gaps = []
        for i, token in enumerate(answer):
            logits = penalize(self.logits(prompt + answer[:i]), prompt, answer[:i])
            gaps.append(float(logits.max() - logits[token]))
        return max(gaps)


Penalty = Callable[[torch.Tensor, list[int], list[int]], torch.Tensor]


def _repetition(logits: torch.Tensor, prompt: list[int], answer: list[int]) -> torch.Tensor:
    """A repetition penalty of 2."""
    seen = torch.zeros_like(logits, dtype=torch.bool)
    seen[torch.tensor(prompt + answer)] = True
    return torch.where(seen, torch.where(logits > 0, logits / 2, logits * 2), logits)


def _presence_and_frequency(
    logits: torch.Tensor, prompt: list[int], answer: list[int]
) -> torch.Tensor:
    """A presence penalty of 1 and a frequency penalty of 0.5, which know the answer alone."""
    counts = torch.bincount(torch.tensor(answer, dtype=torch.long), minlength=len(logits))
    return logits - (counts > 0) * 1.0 - counts * 0.5


def main() -> None:
    path = make_model("llama", Path(os.environ["CLIENT_MODELS"]))
    prompt = make_prompts(3, 60)[2]
    reference = _Reference(path)
    expected = reference.logits(prompt).softmax(0)

    from vllm import LLM, SamplingParams

    llm = LLM(
        model=str(path),
        dtype="bfloat16",
        max_model_len=256,
        max_num_seqs=16,
        num_gpu_blocks_override=64,
        enforce_eager=True,
        # With it the plugin does not tell the sampler which tokens it has drawn (docs/clients.md).
        async_scheduling=False,
    )

    def answers(count: int = 1, **parameters: Any) -> list[list[int]]:
        wanted = SamplingParams(**({"max_tokens": 8, "ignore_eos": True} | parameters))
        outputs = llm.generate([{"prompt_token_ids": prompt}] * count, wanted, use_tqdm=False)
        return [list(output.outputs[0].token_ids) for output in outputs]

    greedy = answers(temperature=0)[0]
    assert answers(temperature=1, top_k=1)[0] == greedy, "top_k=1 is greedy"
    assert answers(temperature=1, top_p=1e-6)[0] == greedy, "a tiny top_p is greedy"
    first, again = answers(temperature=1, seed=7)[0], answers(temperature=1, seed=7)[0]
    assert first == again, "the same seed draws the same tokens"
    assert answers(temperature=1, seed=8)[0] != first, "another seed draws others"
    once = answers(temperature=0, repetition_penalty=2.0, max_tokens=24)[0]
    assert reference.gap(prompt, once, _repetition) < 2 * _OFF
    both = answers(temperature=0, presence_penalty=1.0, frequency_penalty=0.5, max_tokens=24)[0]
    assert reference.gap(prompt, both, _presence_and_frequency) < 2 * _OFF
    assert once != both
    allowed = answers(temperature=1, allowed_token_ids=[5, 6])[0]
    assert set(allowed) <= {5, 6}, "only allowed tokens are drawn"

    best = expected.topk(20).indices
    drawn = [row[0] for row in answers(_DRAWS, temperature=1, top_k=20, max_tokens=1)]
    # In bf16 other tokens may be the last ones of the 20 likeliest.
    below = (expected[best[-1]] / expected[torch.tensor(drawn)]).log().max()
    assert below < 2 * _OFF, f"a token is {below} below the 20 likeliest"
    counts = torch.bincount(torch.tensor(drawn), minlength=len(expected))[best[:10]]
    share = expected[best[:10]] / expected[best].sum()
    deviation = (counts - _DRAWS * share) / (_DRAWS * share * (1 - share)).sqrt()
    # Each is nearly normal; bf16 moves the probabilities by some percent.
    assert deviation.abs().max() < 5, f"frequencies are off: {deviation.tolist()}"

    parameters = SamplingParams(temperature=0, max_tokens=1, logprobs=5)
    output = llm.generate([{"prompt_token_ids": prompt}], parameters, use_tqdm=False)[0]
    given = output.outputs[0].logprobs[0]
    off = max(abs(p.logprob - float(expected[t].log())) for t, p in given.items())
    assert off < _OFF, f"logarithms of probabilities are off by {off}"
    print(json.dumps({"largest_deviation": round(float(deviation.abs().max()), 2), "off": off}))


if __name__ == "__main__":
    main()
