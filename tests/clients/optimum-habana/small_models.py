"""Random models, a tokenizer and data that need no hub, and what transformers makes of them.

A token of the tokenizer is a word ("w17"), so that a generated text tells every token.
"""

from __future__ import annotations

import functools
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

PROMPTS = ("w1 w5 w9 w13", "w100 w3 w77")
NEW_TOKENS = 12
# Samples for training, and tokens in each.
SAMPLES, LENGTH = 16, 24
_WORDS = 125


def tokenizer() -> PreTrainedTokenizerFast:
    special = ["<pad>", "<s>", "</s>"]
    words = {word: i for i, word in enumerate([*special, *(f"w{i}" for i in range(_WORDS))])}
    made = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<pad>",
        model_max_length=64,
        model_input_names=["input_ids", "attention_mask"],
    )


def save_models(folder: Path) -> None:
    """Saves llama, gpt2 and bert, each with the tokenizer, into folders of these names."""
    words = tokenizer()
    ids = {
        "vocab_size": len(words),
        "pad_token_id": words.pad_token_id,
        "bos_token_id": words.bos_token_id,
        "eos_token_id": words.eos_token_id,
    }
    torch.manual_seed(0)
    # The spread of the weights makes the most probable token a clear choice.
    llama = LlamaConfig(
        **ids,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        initializer_range=0.3,
    )
    gpt2 = GPT2Config(
        **ids,
        n_embd=64,
        n_layer=2,
        n_head=4,
        n_positions=128,
        initializer_range=0.3,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    bert = BertConfig(
        vocab_size=len(words),
        pad_token_id=words.pad_token_id,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    made = {
        "llama": LlamaForCausalLM(llama),
        "gpt2": GPT2LMHeadModel(gpt2),
        "bert": BertForSequenceClassification(bert),
    }
    for name, model in made.items():
        model.save_pretrained(folder / name)
        words.save_pretrained(folder / name)


@functools.cache
def cpu_texts(folder: Path, beams: int) -> list[str]:
    """The continuation of each prompt by transformers on the CPU in f32, greedy if there is one
    beam, as a text that begins with the prompt."""
    words = tokenizer()
    words.padding_side = "left"
    kind = LlamaForCausalLM if folder.name == "llama" else GPT2LMHeadModel
    model = kind.from_pretrained(folder).eval()
    batch = words(list(PROMPTS), return_tensors="pt", padding=True)
    made = model.generate(
        **batch,
        do_sample=False,
        min_new_tokens=NEW_TOKENS,
        max_new_tokens=NEW_TOKENS,
        pad_token_id=words.pad_token_id,
        num_beams=beams,
    )
    return list(words.batch_decode(made, skip_special_tokens=True))


def samples(name: str) -> list[dict[str, torch.Tensor]]:
    """Training data of bert (a label for each text) or gpt2 (the text itself)."""
    generator = torch.Generator().manual_seed(1)
    made = []
    for _ in range(SAMPLES):
        ids = torch.randint(3, 3 + _WORDS, (LENGTH,), generator=generator)
        labels = (ids[0] % 2) if name == "bert" else ids
        made.append({"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels})
    return made
