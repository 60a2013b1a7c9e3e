"""Rows of tokens from prepared shards, in the two layouts. The shards are memory-mapped, never held whole.

`padded`: one document per row, cut to `seq_len` tokens whose last is then the end token, as the T5 tokenizer
truncates. A row predicts its own tokens only: its last position has no target.
`packed`: windows of `seq_len` + 1 tokens over the documents of a shard, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.data.prepared import OFFSETS, TOKENS, Prepared, Shard

Ints = npt.NDArray[np.int64]
IGNORED = -100  # as in task.py, which needs torch


class Rows:
    """The rows of several shards, numbered from 0 on through all of them.

    Args:
        folder: of the prepared data.
        shards: in their order.
        prepared: has the end token and the padding token.
        layout: "padded" or "packed".
        seq_len: T, tokens of a row.
    """

    def __init__(
        self, folder: Path, shards: Sequence[Shard], prepared: Prepared, layout: str, seq_len: int
    ) -> None:
        self.folder, self.shards, self.seq_len = folder, shards, seq_len
        self.end, self.pad, self.is_padded = prepared.end, prepared.pad, layout == "padded"
        sizes = [shard.rows(layout, seq_len) for shard in shards]
        self.starts: Ints = np.cumsum([0, *sizes], dtype=np.int64)
        self._open: dict[str, npt.NDArray[Any]] = {}

    def __len__(self) -> int:
        return int(self.starts[-1])

    def counts(self, rows: Ints) -> Ints:
        """How many targets are counted in each of the `rows` (N,)."""
        if not self.is_padded:
            return np.full(len(rows), self.seq_len)
        return np.minimum(self._collect(rows, self._lengths), self.seq_len) - 1

    def gather(self, rows: Ints) -> tuple[Ints, Ints]:
        """Inputs and targets (N, T) of the `rows` (N,); targets that do not count are IGNORED."""
        both = self._collect(rows, self._padded if self.is_padded else self._packed)
        return both[:, 0], both[:, 1]

    def _collect(self, rows: Ints, read: Callable[[Shard, Ints], Ints]) -> Ints:
        """What `read(shard, its rows)` gives for all rows, in their order."""
        shards = np.searchsorted(self.starts, rows, side="right") - 1
        found: Ints | None = None
        for shard in np.unique(shards):
            here = shards == shard
            part = read(self.shards[shard], rows[here] - self.starts[shard])
            if found is None:
                found = np.empty((len(rows), *part.shape[1:]), dtype=np.int64)
            found[here] = part
        return np.empty((0, 2, self.seq_len), dtype=np.int64) if found is None else found

    def _lengths(self, shard: Shard, rows: Ints) -> Ints:
        offsets = self._map(shard, OFFSETS)
        lengths: Ints = offsets[rows + 1] - offsets[rows]
        return lengths

    def _padded(self, shard: Shard, rows: Ints) -> Ints:
        lengths, at = self._lengths(shard, rows)[:, None], np.arange(self.seq_len)
        starts = self._map(shard, OFFSETS)[rows][:, None]
        tokens = self._map(shard, TOKENS)[starts + np.minimum(at, lengths - 1)].astype(np.int64)
        tokens[lengths[:, 0] > self.seq_len, -1] = self.end
        inputs = np.where(at < lengths, tokens, self.pad)
        targets = np.full_like(inputs, IGNORED)
        targets[:, :-1] = np.where(at[1:] < lengths, tokens[:, 1:], IGNORED)
        return np.stack([inputs, targets], axis=1)

    def _packed(self, shard: Shard, rows: Ints) -> Ints:
        positions = rows[:, None] * self.seq_len + np.arange(self.seq_len + 1)
        tokens = self._map(shard, TOKENS)[positions].astype(np.int64)
        return np.stack([tokens[:, :-1], tokens[:, 1:]], axis=1)

    def _map(self, shard: Shard, kind: str) -> npt.NDArray[Any]:
        """A file of a shard, whose size is checked when it is opened first."""
        name = shard.name + kind
        if name not in self._open:
            shard.check(self.folder)
            dtype = np.uint16 if kind == TOKENS else np.int64
            self._open[name] = np.memmap(self.folder / name, dtype=dtype, mode="r")
        return self._open[name]

    def spread(self, tokens: int) -> Iterator[int]:
        """The rows with about so many counted targets in all, spread evenly."""
        total = len(self)
        targets = sum(int(self.counts(np.arange(a, b)).sum()) for a, b in self._ranges())
        count = min(total, -(-tokens * total // targets)) if targets else 0
        return (number * total // count for number in range(count))

    def _ranges(self) -> Iterator[tuple[int, int]]:
        return zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True)
