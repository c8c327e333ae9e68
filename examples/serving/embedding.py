"""Sentences to unit vectors: MiniLM with its real weights, in batches of the grid's shapes."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from backends import Backend
from sizes import Size, buckets

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sentence_encoder import SentenceEncoder, load_tokenizer, weights_folder


class Embedder:
    """One thread at a time calls embed() and warm(); any thread may call the rest."""

    def __init__(self, backend: Backend, size: Size) -> None:
        folder = weights_folder()
        self.tokenizer = load_tokenizer(folder)
        self.buckets = buckets(size.texts)
        self.largest_batch, self.longest = (max(axis) for axis in size.texts)
        self._device = backend.device
        self._encode = backend.compile(SentenceEncoder(folder))

    def tokens(self, text: str) -> list[int]:
        """The tokens of a text, cut off at the longest length of the grid."""
        return list(self.tokenizer(text, truncation=True, max_length=self.longest)["input_ids"])

    def warm(self, shape: tuple[int, int]) -> None:
        ones = torch.ones(shape, dtype=torch.int64)
        self._run(ones, ones)

    def embed(self, texts: list[list[int]]) -> list[list[float]]:
        """Vectors of at most `largest_batch` texts, given as tokens."""
        rows = [torch.tensor(tokens) for tokens in texts]
        padded = self.buckets.pad(
            {
                "input_ids": torch.nn.utils.rnn.pad_sequence(rows, batch_first=True),
                "attention_mask": torch.nn.utils.rnn.pad_sequence(
                    [torch.ones_like(row) for row in rows], batch_first=True
                ),
            },
            values={"input_ids": self.tokenizer.pad_token_id},
        )
        vectors = self._run(padded.inputs["input_ids"], padded.inputs["attention_mask"])
        return padded.unpad(vectors, axes=(0, None)).tolist()

    def _run(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            return self._encode(tokens.to(self._device), mask.to(self._device)).cpu()
