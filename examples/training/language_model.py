#!/usr/bin/env python3
"""A small GPT-2 that learns to write, or a small BERT that learns to fill gaps, on hpu and in CPU
eager side by side.

The text is Python's language reference in English, which comes with Python (`pydoc_data.topics`);
its tokens are byte pairs counted on it. In the end the model writes, on hpu: GPT in English after
the default number of steps; BERT has by then learned little but which tokens are frequent.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import torch
from side_by_side import BatchOf, train_side_by_side
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

WORDS = 2048
LENGTH = 128  # tokens of a sequence
GAPS = 0.15  # share of tokens that BERT fills


def read_text() -> tuple[Tokenizer, torch.Tensor]:
    text = "\n".join(topics[name] for name in sorted(topics))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=WORDS, special_tokens=["[GAP]"], show_progress=False)
    tokenizer.train_from_iterator([text], trainer)
    return tokenizer, torch.tensor(tokenizer.encode(text).ids)


def sequences(text: torch.Tensor, step: int, batch: int) -> torch.Tensor:
    """[batch, LENGTH], from places that depend on the step alone."""
    places = torch.randint(
        len(text) - LENGTH, (batch,), generator=torch.Generator().manual_seed(step)
    )
    return torch.stack([text[place : place + LENGTH] for place in places])


def gpt(size: int, layers: int) -> nn.Module:
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=WORDS,
            n_positions=LENGTH,
            n_embd=size,
            n_layer=layers,
            n_head=4,
            use_cache=False,
            bos_token_id=None,
            eos_token_id=None,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
    )


def bert(size: int, layers: int) -> nn.Module:
    return BertForMaskedLM(
        BertConfig(
            vocab_size=WORDS,
            max_position_embeddings=LENGTH,
            hidden_size=size,
            num_hidden_layers=layers,
            num_attention_heads=4,
            intermediate_size=4 * size,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )


def with_gaps(tokens: torch.Tensor, gap: int, seed: int) -> dict[str, torch.Tensor]:
    """Some tokens hidden, which are the labels; -100 is what the loss leaves out."""
    draw = torch.rand(tokens.shape, generator=torch.Generator().manual_seed(seed))
    hidden = draw < GAPS
    return {
        "input_ids": tokens.masked_fill(hidden, gap),
        "labels": tokens.masked_fill(~hidden, -100),
    }


@torch.no_grad()
def write(model: nn.Module, prompt: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """What GPT writes behind the prompt until the sequence is full, each token drawn from the 20
    most probable ones. One size of input, so one program."""
    predict: Any = torch.compile(model, backend="hpu_backend")
    tokens = torch.zeros(1, LENGTH, dtype=torch.long)
    tokens[0, : len(prompt)] = prompt
    for place in range(len(prompt), LENGTH):
        logits = predict(input_ids=tokens.to("hpu")).logits[0, place - 1].cpu()
        best = (logits / 0.8).topk(20)
        drawn = torch.multinomial(best.values.softmax(0), 1, generator=generator)
        tokens[0, place] = best.indices[drawn]
    return tokens[0]


@torch.no_grad()
def fill(model: nn.Module, given: torch.Tensor, gap: int) -> torch.Tensor:
    predict: Any = torch.compile(model, backend="hpu_backend")
    found = predict(input_ids=given[None].to("hpu")).logits[0].argmax(1).cpu()
    return torch.where(given == gap, found, given)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--model", choices=["gpt", "bert"], default="gpt")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--size", type=int, default=256, help="of a token's vector")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--folder", type=Path, default=Path(), help="for loss.svg, checkpoints")
    args = parser.parse_args()

    tokenizer, text = read_text()
    gap = tokenizer.token_to_id("[GAP]")
    learned, held_out = text[: -8 * LENGTH], text[-8 * LENGTH :]
    print(f"{len(text):,} tokens of {WORDS:,} kinds: Python's language reference")

    def batch_of(step: int) -> dict[str, torch.Tensor]:
        tokens = sequences(learned, step, args.batch)
        if args.model == "gpt":
            return {"input_ids": tokens, "labels": tokens}
        return with_gaps(tokens, gap, step)

    torch.manual_seed(0)
    model = {"gpt": gpt, "bert": bert}[args.model](args.size, args.layers)
    batches: BatchOf = batch_of
    trained = train_side_by_side(model, batches, args.steps, args.folder)["hpu"]

    if args.model == "gpt":
        prompt = torch.tensor(tokenizer.encode("The value of the expression").ids)
        tokens = write(trained, prompt, torch.Generator().manual_seed(0))
        print("written on hpu:\n" + tokenizer.decode(tokens.tolist()))
    else:
        wanted = held_out[:LENGTH]
        given = with_gaps(wanted, gap, 0)["input_ids"]
        filled = fill(trained, given, gap)
        hidden = given == gap
        right = (filled == wanted)[hidden].float().mean().item()
        print("given:\n" + tokenizer.decode(given.tolist(), skip_special_tokens=False))
        print("filled on hpu:\n" + tokenizer.decode(filled.tolist()))
        print(f"{right:.0%} of {int(hidden.sum())} gaps are filled as they were")


if __name__ == "__main__":
    main()
