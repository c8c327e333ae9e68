#!/usr/bin/env python3
"""A small GPT-2 that learns to write, or a small BERT that learns to fill gaps, on hpu and in CPU
eager side by side.

The text is Python's language reference in English, which comes with Python (`pydoc_data.topics`).
GPT's tokens are byte pairs counted on it, BERT's are single characters: most gaps in a word have
one filling, which a small model learns in minutes. At the end the model writes or fills, on hpu.
A step is the same on both devices up to rounding, as resuming on the other one shows; over hundreds
of steps roundings add up, and the two losses diverge a little.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import torch
from side_by_side import train_side_by_side
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

GAPS = 0.15  # share of tokens that BERT fills
SPREAD = 0.14  # standard deviation of BERT's initial weights
HELD_OUT, SHOWN = 64, 8  # sequences that are not learned, and how many of them are printed


@dataclass(frozen=True)
class Task:
    # The number of different tokens. If there are more characters, each character is a token.
    kinds: int
    length: int  # tokens of a sequence
    batch: int
    size: int  # of a token's vector
    layers: int
    steps: int
    learning_rate: float


TASKS = {
    "gpt": Task(2048, 128, 16, 256, 4, 600, 1e-3),
    "bert": Task(0, 64, 32, 128, 2, 2000, 2e-3),
}


def read_text(kinds: int) -> tuple[Tokenizer, torch.Tensor]:
    text = "\n".join(topics[name] for name in sorted(topics))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=kinds, special_tokens=["[GAP]"], show_progress=False)
    tokenizer.train_from_iterator([text], trainer)
    return tokenizer, torch.tensor(tokenizer.encode(text).ids)


def sequences(text: torch.Tensor, step: int, batch: int, length: int) -> torch.Tensor:
    """Tokens [batch, length] from places of the text that depend on the step alone."""
    places = torch.randint(
        len(text) - length, (batch,), generator=torch.Generator().manual_seed(step)
    )
    return text[places[:, None] + torch.arange(length)]


def gpt(kinds: int, length: int, size: int, layers: int) -> nn.Module:
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=kinds,
            n_positions=length,
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


def bert(kinds: int, length: int, size: int, layers: int) -> nn.Module:
    """A BERT whose attention begins at the neighbours of a token. From random weights it would
    first have to learn that places matter, and for thousands of steps it would know only which
    tokens are frequent."""
    model = BertForMaskedLM(
        BertConfig(
            vocab_size=kinds,
            max_position_embeddings=length,
            hidden_size=size,
            num_hidden_layers=layers,
            num_attention_heads=4,
            intermediate_size=4 * size,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            initializer_range=SPREAD,
        )
    )
    # Places begin as waves, so that near places have similar vectors; queries and keys begin equal,
    # so that similar vectors attend to each other. Training changes all of it.
    rates = length ** -torch.linspace(0, 1, size // 2)
    angles = torch.arange(length)[:, None] * rates
    waves = torch.cat([angles.sin(), angles.cos()], 1)
    with torch.no_grad():
        model.bert.embeddings.position_embeddings.weight.copy_(waves * SPREAD * math.sqrt(2))
        for layer in model.bert.encoder.layer:
            attention = layer.attention.self
            attention.key.weight.copy_(attention.query.weight)
    return model


def with_gaps(tokens: torch.Tensor, gap: int, seed: int) -> dict[str, torch.Tensor]:
    """Hides some tokens, which become the labels. The loss leaves out labels of -100."""
    draw = torch.rand(tokens.shape, generator=torch.Generator().manual_seed(seed))
    hidden = draw < GAPS
    return {
        "input_ids": tokens.masked_fill(hidden, gap),
        "labels": tokens.masked_fill(~hidden, -100),
    }


@torch.no_grad()
def write(
    model: nn.Module, prompt: torch.Tensor, length: int, generator: torch.Generator
) -> torch.Tensor:
    """GPT's text after the prompt, until the sequence is full. Each token is drawn from the 20 most
    probable ones. There is one size of input, so there is one program."""
    predict: Any = torch.compile(model, backend="hpu_backend")
    tokens = torch.zeros(1, length, dtype=torch.long)
    tokens[0, : len(prompt)] = prompt
    for place in range(len(prompt), length):
        logits = predict(input_ids=tokens.to("hpu")).logits[0, place - 1].cpu()
        best = (logits / 0.8).topk(20)
        drawn = torch.multinomial(best.values.softmax(0), 1, generator=generator)
        tokens[0, place] = best.indices[drawn]
    return tokens[0]


@torch.no_grad()
def fill(model: nn.Module, given: torch.Tensor, gap: int) -> torch.Tensor:
    predict: Any = torch.compile(model, backend="hpu_backend")
    found = predict(input_ids=given.to("hpu")).logits.argmax(-1).cpu()
    return torch.where(given == gap, found, given)


def show_filled(
    model: nn.Module, tokenizer: Tokenizer, learned: torch.Tensor, wanted: torch.Tensor
) -> None:
    gap = tokenizer.token_to_id("[GAP]")
    given = with_gaps(wanted, gap, 0)["input_ids"]
    filled = fill(model, given, gap)
    print("filled on hpu:")
    for rows in list(zip(given, filled, wanted, strict=True))[:SHOWN]:
        for name, row in zip(("given", "filled", "truth"), rows, strict=True):
            text = tokenizer.decode(row.tolist(), skip_special_tokens=False)
            print(f"  {name:6} |{text.replace('[GAP]', '·').replace(chr(10), ' ')}|")
    hidden = given == gap
    commonest = learned.bincount().argmax()
    right = (filled == wanted)[hidden].float().mean().item()
    guessed = (wanted == commonest)[hidden].float().mean().item()
    print(
        f"{right:.0%} of {int(hidden.sum())} gaps are filled as they were; "
        f"with the commonest token in each it would be {guessed:.0%}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--model", choices=list(TASKS), default="gpt")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--size", type=int, help="of a token's vector")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--folder", type=Path, default=Path(), help="for loss.svg, checkpoints")
    args = parser.parse_args()
    task = TASKS[args.model]
    steps, batch = args.steps or task.steps, args.batch or task.batch

    tokenizer, text = read_text(task.kinds)
    kinds, gap = tokenizer.get_vocab_size(), tokenizer.token_to_id("[GAP]")
    learned, held_out = text[: -HELD_OUT * task.length], text[-HELD_OUT * task.length :]
    print(f"{len(text):,} tokens of {kinds:,} kinds: Python's language reference")

    def batch_of(step: int) -> dict[str, torch.Tensor]:
        tokens = sequences(learned, step, batch, task.length)
        if args.model == "gpt":
            return {"input_ids": tokens, "labels": tokens}
        return with_gaps(tokens, gap, step)

    torch.manual_seed(0)
    make = {"gpt": gpt, "bert": bert}[args.model]
    model = make(kinds, task.length, args.size or task.size, args.layers or task.layers)
    trained = train_side_by_side(model, batch_of, steps, args.folder, task.learning_rate)["hpu"]

    if args.model == "gpt":
        prompt = torch.tensor(tokenizer.encode("The value of the expression").ids)
        tokens = write(trained, prompt, task.length, torch.Generator().manual_seed(0))
        print("written on hpu:\n" + tokenizer.decode(tokens.tolist()))
    else:
        show_filled(trained, tokenizer, learned, held_out.view(HELD_OUT, task.length))


if __name__ == "__main__":
    main()
