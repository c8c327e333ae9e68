"""Small random models with a tokenizer of bytes, as no hub can be reached, and what transformers
says about their tokens on the CPU."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

BEGIN, END, PAD = 256, 257, 258
VOCABULARY = 320
_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "max_position_embeddings": 1024,
    # Wider than a usual start, so that the best tokens lie further apart than bf16's steps.
    "initializer_range": 0.08,
    "bos_token_id": BEGIN,
    "eos_token_id": END,
    "pad_token_id": PAD,
    "tie_word_embeddings": False,
}
_EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 256}
# The settings that each family of models adds to the sizes.
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": {},
    "qwen3": {},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen3_moe": {"num_experts": 4, "norm_topk_prob": True, **_EXPERTS},
}
_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def make_model(family: str, folder: Path) -> Path:
    """Saves a random model of FAMILIES with its tokenizer in folder/family, unless it is there."""
    path = folder / family
    if (path / "tokenizer_config.json").exists():
        return path
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **(_SIZES | FAMILIES[family]))
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.generation_config.eos_token_id = END
    model.save_pretrained(path)
    _tokenizer().save_pretrained(path)
    return path


def _tokenizer() -> PreTrainedTokenizerFast:
    """A token for each byte, and three special ones."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE({letter: number for number, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
    fast.chat_template = _TEMPLATE
    return fast


def make_prompts(count: int, longest: int) -> list[list[int]]:
    """Random prompts of mixed lengths, the same ones every time: the first has one token, the
    second `longest`."""
    numbers = random.Random(0)
    lengths = [1, longest] + [numbers.randint(2, longest) for _ in range(count - 2)]
    return [[BEGIN] + [numbers.randrange(256) for _ in range(n - 1)] for n in lengths]


@dataclass(frozen=True)
class Verdict:
    """How answers compare with transformers on the CPU. A token that is not the best of the model
    in f32 is wrong if its logit is further below the best than bf16 arithmetic explains."""

    sequences: int
    equal_sequences: int
    tokens: int
    best_tokens: int
    wrong_tokens: int
    bound: float
    largest_gap: float

    def print(self, name: str) -> None:
        print(f"{name}: {json.dumps(vars(self))}", flush=True)


@torch.no_grad()
def judge(path: Path, prompts: list[list[int]], answers: list[list[int]]) -> Verdict:
    """Compares greedy answers with the model's own logits after the same tokens. The bound is
    twice what the CPU's bf16 logits of these sequences are off its f32 ones at most."""
    # vLLM's plugin replaces the attention "sdpa" of transformers.
    models = [
        AutoModelForCausalLM.from_pretrained(path, dtype=dtype, attn_implementation="eager").eval()
        for dtype in (torch.float32, torch.bfloat16)
    ]
    wide, narrow = models
    gaps: list[list[float]] = []
    off = 0.0
    for prompt, answer in zip(prompts, answers, strict=True):
        tokens = torch.tensor([prompt + answer])
        first, last = len(prompt) - 1, len(prompt) + len(answer) - 1
        logits = wide(tokens).logits[0, first:last]
        off = max(off, float((narrow(tokens).logits[0, first:last].float() - logits).abs().max()))
        taken = logits.gather(1, torch.tensor(answer)[:, None])[:, 0]
        gaps.append((logits.max(1).values - taken).tolist())
    flat = [gap for row in gaps for gap in row]
    return Verdict(
        sequences=len(gaps),
        equal_sequences=sum(not any(row) for row in gaps),
        tokens=len(flat),
        best_tokens=sum(gap == 0 for gap in flat),
        wrong_tokens=sum(gap > 2 * off for gap in flat),
        bound=round(2 * off, 4),
        largest_gap=round(max(flat), 4),
    )
