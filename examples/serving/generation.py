"""Greedy generation of many requests at once: rows of one cache, which join and leave it.

A cache has a shape of the grid, (rows, positions). Between two tokens it is laid out anew if the
rows changed or one is full, so a token of all rows is one launch of that shape's program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from backends import Backend
from llama import END, Step, make_llama
from sizes import Size, buckets


@dataclass(eq=False)
class Row:
    """A request that generates: at most `limit` tokens, the last may be END."""

    prompt: list[int]
    limit: int
    tokens: list[int] = field(default_factory=list)
    cancelled: bool = False

    @property
    def done(self) -> bool:
        return self.cancelled or len(self.tokens) >= self.limit or self.tokens[-1:] == [END]

    @property
    def length(self) -> int:
        """Positions that its next step needs."""
        return len(self.prompt) + len(self.tokens)


class Generator:
    """All methods are called by one thread at a time."""

    def __init__(self, backend: Backend, size: Size) -> None:
        llama = make_llama(size)
        self.prompts = buckets(size.prompts)
        self.caches = buckets(size.caches)
        self.most_rows, self.most_positions = (max(axis) for axis in size.caches)
        self.most_prompts, self.longest_prompt = (max(axis) for axis in size.prompts)
        self.rows: list[Row] = []
        self._device = backend.device
        self._heads = llama.config.num_key_value_heads
        self._head_width = size.width // llama.config.num_attention_heads
        self._layers = size.layers
        self._step = backend.compile(Step(llama))
        self._keys, self._values = self._new_cache(0, 0)

    def check(self, prompt: list[int], limit: int) -> None:
        """ValueError if such a request cannot be served."""
        if not 1 <= len(prompt) <= self.longest_prompt:
            raise ValueError(
                f"the prompt has {len(prompt)} tokens, 1 to {self.longest_prompt} are served"
            )
        if not 1 <= limit <= (most := self.most_positions - len(prompt)):
            raise ValueError(f"max_tokens is {limit}; behind this prompt 1 to {most} are served")

    def warm_prompts(self, shape: tuple[int, int]) -> None:
        self._run_prompts(torch.zeros(shape, dtype=torch.int64), [0] * shape[0])

    def warm_cache(self, shape: tuple[int, int]) -> None:
        self._run_tokens([0] * shape[0], [0] * shape[0], *self._new_cache(*shape))

    def admit(self, rows: Sequence[Row]) -> list[Row]:
        """The rows' first tokens; then they belong to the batch. Returns them."""
        prompts = [torch.tensor(row.prompt) for row in rows]
        padded = self.prompts.pad(
            {"tokens": torch.nn.utils.rnn.pad_sequence(prompts, batch_first=True)}
        ).inputs["tokens"]
        last = [len(row.prompt) - 1 for row in rows] + [0] * (len(padded) - len(rows))
        tokens, keys, values = self._run_prompts(padded, last)
        for row, token in zip(rows, tokens, strict=False):
            row.tokens.append(token)
        self._lay_out([*rows], keys, values)
        return [*rows]

    def advance(self) -> list[Row]:
        """One more token for each row of the batch that is not done. Returns those rows."""
        if any(row.done for row in self.rows) or self._full():
            self._lay_out([])
        if not self.rows:
            return []
        padding = [0] * (self._keys.shape[1] - len(self.rows))
        tokens = [row.tokens[-1] for row in self.rows] + padding
        positions = [row.length - 1 for row in self.rows] + padding
        for row, token in zip(
            self.rows,
            self._run_tokens(tokens, positions, self._keys, self._values),
            strict=False,
        ):
            row.tokens.append(token)
        return [*self.rows]

    def drop(self) -> None:
        """Forgets all rows."""
        self.rows = []
        self._keys, self._values = self._new_cache(0, 0)

    def _full(self) -> bool:
        return max(row.length for row in self.rows) > self._keys.shape[3]

    def _lay_out(self, joining: list[Row], *caches: torch.Tensor) -> None:
        """A cache of the rows that are not done and the joining rows, which lie in `caches`."""
        staying = [index for index, row in enumerate(self.rows) if not row.done]
        coming = [index for index, row in enumerate(joining) if not row.done]
        rows = [self.rows[index] for index in staying] + [joining[index] for index in coming]
        if not rows:
            return self.drop()
        shape = self.caches.fit(batch=len(rows), sequence=max(row.length for row in rows))
        new = self._new_cache(*shape)
        for kind, cache in enumerate(new):
            old = (self._keys, self._values)[kind]
            _copy_rows(old, staying, cache, 0)
            if joining:
                _copy_rows(caches[kind], coming, cache, len(staying))
        self.rows, (self._keys, self._values) = rows, new
        return None

    def _new_cache(self, rows: int, positions: int) -> tuple[torch.Tensor, torch.Tensor]:
        shape = (self._layers, rows, self._heads, positions, self._head_width)
        return torch.zeros(shape, device=self._device), torch.zeros(shape, device=self._device)

    def _run_prompts(
        self, tokens: torch.Tensor, last: list[int]
    ) -> tuple[list[int], torch.Tensor, torch.Tensor]:
        keys, values = self._new_cache(*tokens.shape)
        positions = torch.arange(tokens.shape[1]).repeat(tokens.shape[0], 1)
        return self._run(tokens, positions, last, keys, values), keys, values

    def _run_tokens(
        self, tokens: list[int], positions: list[int], keys: torch.Tensor, values: torch.Tensor
    ) -> list[int]:
        column = torch.tensor(tokens)[:, None], torch.tensor(positions)[:, None]
        return self._run(*column, [0] * len(tokens), keys, values)

    def _run(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        last: list[int],
        keys: torch.Tensor,
        values: torch.Tensor,
    ) -> list[int]:
        with torch.inference_mode():
            inputs = [each.to(self._device) for each in (tokens, positions, torch.tensor(last))]
            return self._step(*inputs, keys, values).tolist()


def _copy_rows(source: torch.Tensor, rows: list[int], target: torch.Tensor, first: int) -> None:
    """Copies rows of a cache into another one from row `first` on, for the positions of both."""
    if rows:
        positions = min(source.shape[3], target.shape[3])
        taken = source[:, torch.tensor(rows, device=source.device), :, :positions]
        target[:, first : first + len(rows), :, :positions] = taken
