"""Language modelling on rows of tokens: windows over one stream, or the shards of a corpus of any size.

Tokens are memory-mapped, never held whole. A corpus has one of two layouts.
`padded`: one document per row, cut to `seq_len` tokens whose last is then the end token, as the T5 tokenizer
truncates. A row predicts its own tokens only: its last position has no target.
`packed`: windows of `seq_len` + 1 tokens over the documents of a shard, one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from htbench.harness.data.cache import TOKEN_BYTES, check_sizes
from htbench.harness.data.loss import linear_cross_entropies, linear_cross_entropy
from htbench.harness.data.order import sharded_indices
from htbench.harness.data.stamps import OFFSETS, TOKENS, Prepared, Shard
from htbench.harness.data.task import (
    IGNORED,
    SPLITS,
    Batch,
    Scores,
    cross_entropies,
    cross_entropy,
    each_item,
    evaluating,
    in_float32,
    mean_losses,
)
from htbench.harness.errors import UsageError
from htbench.harness.parallel.group import ALONE, Group

Tokens = npt.NDArray[np.uint16]
Ints = npt.NDArray[np.int64]
CHUNK_ABOVE = 4096  # words; smaller heads cost little memory, and their runs keep their numbers
_TOGETHER = 4096  # tokens that are evaluated at once where batches are smaller, which keep a CPU less busy


def leaves_head(model: nn.Module) -> bool:
    """Whether the loss makes the logits of a model itself, since they are too many to be held whole."""
    return getattr(model, "splits_head", False) and len(_head(model).weight) > CHUNK_ABOVE


def _head(model: nn.Module) -> Any:
    return model.get_output_embeddings()  # type: ignore[operator]


class Stream:
    """Rows of one stream of tokens (N,): row w reads tokens [w T, w T + T) and predicts their successors."""

    def __init__(self, tokens: Tokens, seq_len: int) -> None:
        self.tokens, self.seq_len = tokens, seq_len
        self.starts: Ints = np.array([0, max(0, len(tokens) - 1) // seq_len])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def counts(self, rows: Ints) -> Ints:
        """How many targets are counted in each of the `rows` (N,)."""
        return np.full(len(rows), self.seq_len)

    def gather(self, rows: Ints) -> tuple[Ints, Ints]:
        """Inputs and targets (N, T) of the `rows` (N,)."""
        positions = rows[:, None] * self.seq_len + np.arange(self.seq_len + 1)
        tokens = self.tokens[positions].astype(np.int64)
        return tokens[:, :-1], tokens[:, 1:]

    def spread(self, tokens: int) -> Ints:
        """The rows with at most so many targets in all, spread evenly."""
        count = min(len(self), tokens // self.seq_len)
        return np.arange(count) * len(self) // max(1, count)

    def documents(self, rows: Ints, ends: npt.NDArray[np.bool_]) -> Ints:
        """The document in which each of the `rows` (N,) begins; `ends` (V,) says which tokens end one."""
        ended: Ints = np.cumsum(ends[self.tokens[: len(self) * self.seq_len]])
        starts: Ints = np.concatenate([[0], ended])[rows * self.seq_len]
        return starts


class ShardRows:
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

    def spread(self, tokens: int) -> Ints:
        """The rows with about so many counted targets in all, spread evenly."""
        ranges = zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True)
        targets = sum(int(self.counts(np.arange(first, end)).sum()) for first, end in ranges)
        count = min(len(self), -(-tokens * len(self) // targets)) if targets else 0
        return np.arange(count) * len(self) // max(1, count)

    def documents(self, rows: Ints, ends: npt.NDArray[np.bool_]) -> Ints:
        """The document in which each of the `rows` (N,) begins. `ends` is not needed."""
        if self.is_padded:
            return rows
        counts = [0, *(shard.documents for shard in self.shards)]
        first = dict(zip(self.shards, np.cumsum(counts).tolist(), strict=False))

        def within(shard: Shard, rows: Ints) -> Ints:
            offsets = self._map(shard, OFFSETS)
            found: Ints = np.searchsorted(offsets, rows * self.seq_len, side="right") - 1 + first[shard]
            return found

        return self._collect(rows, within)

    def _collect(self, rows: Ints, read: Callable[[Shard, Ints], Ints]) -> Ints:
        """What `read(shard, its rows)` gives for all rows, in their order."""
        shards = np.searchsorted(self.starts, rows, side="right") - 1
        collected = np.empty((0, 2, self.seq_len), dtype=np.int64)
        for shard in np.unique(shards):
            here = shards == shard
            part = read(self.shards[shard], rows[here] - self.starts[shard])
            if not len(collected):
                collected = np.empty((len(rows), *part.shape[1:]), dtype=np.int64)
            collected[here] = part
        return collected

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
        return np.stack(Stream(self._map(shard, TOKENS), self.seq_len).gather(rows), axis=1)

    def _map(self, shard: Shard, kind: str) -> npt.NDArray[Any]:
        """A file of a shard, whose size is checked when it is opened first."""
        name = shard.name + kind
        if name not in self._open:
            check_sizes(self.folder, shard.sizes)
            dtype = np.uint16 if kind == TOKENS else np.int64
            self._open[name] = np.memmap(self.folder / name, dtype=dtype, mode="r")
        return self._open[name]


class TextTask:
    """Next-token prediction.

    Args:
        rows: of each split: tokens (N,) that are read as windows, or rows of a corpus.
        token_bytes: length in bytes of each token (V,), for bits per byte.
        batch_size: sequences of a global batch, in training and in evaluation.
        seq_len: T, tokens of a row.
        data_seed: seed of the order of the training rows, within each shard.
        held_out_tokens: about so many targets of the validation split are evaluated, spread evenly over it.
        test_tokens: likewise of the test split; None: all of it.
        complete: whether all training text is there, so that another epoch may follow.
    """

    metric = "perplexity"

    def __init__(
        self,
        rows: Mapping[str, Tokens] | Mapping[str, ShardRows],
        token_bytes: npt.NDArray[Any],
        *,
        batch_size: int,
        seq_len: int,
        data_seed: int,
        held_out_tokens: int,
        test_tokens: int | None = None,
        complete: bool = True,
    ) -> None:
        self.rows = {
            split: some if isinstance(some, ShardRows) else Stream(some, seq_len)
            for split, some in rows.items()
        }
        self.token_bytes = torch.from_numpy(token_bytes.astype(np.int64))
        self.batch_size, self.seq_len, self.data_seed = batch_size, seq_len, data_seed
        self.scored, self.complete = {"val": held_out_tokens, "test": test_tokens}, complete
        self.model_options = {"vocabulary": len(token_bytes), "max_length": seq_len}
        self.epoch_size = len(self.rows["train"])
        self._is_exact: dict[int, bool] = {}  # whether so many rows at once have the bits of their batches

    @classmethod
    def open(cls, folder: Path, *, protocol: str = "honest", **settings: Any) -> TextTask:
        """The task of a folder with the tokens of each split in `<split>.npy`, and the lengths of tokens.

        With protocol "paper" validation text is trained on, too, and the test split stands for it.
        """
        streams: dict[str, Tokens] = {
            split: np.load(folder / f"{split}.npy", mmap_mode="r") for split in SPLITS
        }
        if protocol == "paper":
            streams |= {
                "train": np.concatenate([streams["train"], streams["val"]]),
                "val": streams["test"],
            }
        return cls(streams, np.load(folder / TOKEN_BYTES), **settings)

    def batch(self, step: int, group: Group = ALONE) -> Batch:
        """Inputs and targets (batch_size, T) of 0-based `step`."""
        if (step + 1) * self.batch_size > self.epoch_size and not self.complete:
            raise UsageError(
                f"Step {step} is beyond the {self.epoch_size} training samples that are prepared; "
                f"prepare more of them with `htbench data prepare`."
            )
        chosen = sharded_indices(self.rows["train"].starts, self.batch_size, self.data_seed, step)
        return self._take("train", chosen, group)

    def logits(self, model: nn.Module, batch: Batch) -> Tensor:
        """Logits (B T, V) in float32 at least."""
        return in_float32(model(batch.inputs).flatten(0, 1))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Summed cross-entropy of the counted targets in nats, in float32 at least.

        Above `CHUNK_ABOVE` words the logits are not held whole, if the model can leave its head to the loss.
        """
        if leaves_head(model):
            return linear_cross_entropy(*self._before_head(model, batch), batch.kept)
        return cross_entropy(self.logits(model, batch), batch.targets)

    def _before_head(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        return model(batch.inputs, head=False).flatten(0, 1), _head(model).weight, batch.targets.flatten()

    def evaluate(
        self, model: nn.Module, split: str, micro_batch: int, device: torch.device, group: Group = ALONE
    ) -> dict[str, float]:
        """`loss`, `loss_biased` (nats per token), `perplexity`, `bits_per_byte` of the evaluated rows.

        `samples` is the number of tokens predicted.
        The text that bits per byte counts is that of the predicted tokens; an end of text has no bytes.
        """
        return self.score(model, split, micro_batch, device, group).metrics

    def score(
        self, model: nn.Module, split: str, micro_batch: int, device: torch.device, group: Group = ALONE
    ) -> Scores:
        """The summed losses of the rows of `split` that are scored; arguments as of `evaluate`."""
        rows, tokens = self.rows[split], self.scored[split]
        chosen = np.arange(len(rows)) if tokens is None else rows.spread(tokens)

        def measure(places: Tensor) -> tuple[Tensor, Tensor]:
            batch = self._take(split, chosen[places.numpy()], ALONE)
            part = batch.to(device)
            if leaves_head(model):
                losses = linear_cross_entropies(*self._before_head(model, part), IGNORED)
            else:
                losses = cross_entropies(self.logits(model, part), part.targets.flatten())
            spelled = self.token_bytes[batch.targets.clamp(min=0)] * (batch.targets != IGNORED)
            return losses.view(part.targets.shape).sum(dim=1), spelled.sum(dim=1)

        def logits_of(places: Tensor) -> Tensor:
            return self.logits(model, self._take(split, chosen[places.numpy()], ALONE).to(device))

        def measure_together(places: Tensor) -> tuple[Tensor, Tensor]:
            parts = torch.split(places, self.batch_size)
            if len(parts) > 1 and len(places) not in self._is_exact:
                together, alone = logits_of(places), torch.cat([logits_of(part) for part in parts])
                if together.min() < together.max():  # a head of zeros would show nothing
                    self._is_exact[len(places)] = torch.equal(together, alone)
            if len(parts) == 1 or self._is_exact.get(len(places)):
                return measure(places)
            losses, spelled = (torch.cat(x) for x in zip(*map(measure, parts), strict=True))
            return losses, spelled

        batches = _TOGETHER // (self.batch_size * self.seq_len)
        is_precise = not torch.is_autocast_enabled("cpu") and next(model.parameters()).dtype.itemsize > 2
        is_small = batches > 1 and is_precise and not leaves_head(model)  # bfloat16 would hide a difference
        with evaluating(model):
            is_alone = group.size == 1 and device.type == "cpu" and micro_batch >= self.batch_size
            if is_small and is_alone:
                rows_at_once = batches * self.batch_size
                made = each_item(len(chosen), rows_at_once, rows_at_once, group, measure_together)
            else:
                made = each_item(len(chosen), self.batch_size, micro_batch, group, measure)
        sums, text_bytes = made
        counts = rows.counts(chosen)
        means = mean_losses(sums, counts, self.batch_size)
        perplexity = math.exp(means["loss"]) if means["loss"] < 700 else math.inf  # exp(710) overflows
        bits = float(sums.sum() / math.log(2) / text_bytes.sum())
        metrics = {**means, "perplexity": perplexity, "bits_per_byte": bits, "samples": int(counts.sum())}
        documents = rows.documents(chosen, (self.token_bytes == 0).numpy())
        return Scores(metrics, sums, counts, documents, chosen, len(rows))

    def _take(self, split: str, chosen: Ints, group: Group) -> Batch:
        """This process's part of the chosen rows, with the count of all."""
        rows = self.rows[split]
        inputs, targets = rows.gather(group.shard(torch.from_numpy(chosen)).numpy())
        return Batch(torch.from_numpy(inputs), torch.from_numpy(targets), int(rows.counts(chosen).sum()))
