"""Language modelling on a stream of tokens, packed into windows: any tokenised corpus."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from harness.data.loss import linear_cross_entropy
from harness.data.order import batch_indices
from harness.data.task import IGNORED, SPLITS, Batch, cross_entropy, evaluating, in_float32, mean_losses
from harness.data.tokenizer import TOKEN_BYTES
from harness.parallel.group import ALONE, Group

Tokens = npt.NDArray[np.uint16]
CHUNK_ABOVE = 4096  # words; smaller heads cost little memory, and their runs keep their numbers


class TextTask:
    """Next-token prediction: window w of a stream reads tokens [w T, w T + T) and predicts their successors.

    Args:
        streams: tokens (N,) of each split.
        token_bytes: length in bytes of each token (V,), for bits per byte.
        batch_size: sequences of a global batch.
        seq_len: T.
        data_seed: seed of the order of the training windows.
        held_out_tokens: at most this many tokens of each held-out split are evaluated, spread evenly over it.
    """

    metric = "perplexity"

    def __init__(
        self,
        streams: Mapping[str, Tokens],
        token_bytes: npt.NDArray[Any],
        *,
        batch_size: int,
        seq_len: int,
        data_seed: int,
        held_out_tokens: int,
    ) -> None:
        self.streams = streams
        self.token_bytes = torch.as_tensor(token_bytes, dtype=torch.int64)
        self.batch_size, self.seq_len, self.data_seed = batch_size, seq_len, data_seed
        self.held_out_windows = held_out_tokens // seq_len
        self.model_options = {"vocabulary": len(token_bytes), "max_length": seq_len}
        self.epoch_size = self._windows("train")

    @classmethod
    def open(cls, folder: Path, *, protocol: str = "honest", **settings: int) -> TextTask:
        """The task of a folder that `tokenizer.write_tokens` filled; the tokens are memory-mapped.

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
        windows = batch_indices(self.epoch_size, self.batch_size, self.data_seed, step)
        ours = self._gather("train", group.shard(torch.from_numpy(windows)).numpy())
        return Batch(ours.inputs, ours.targets, windows.size * self.seq_len)

    def logits(self, model: nn.Module, batch: Batch) -> Tensor:
        """Logits (B T, V) in float32 at least."""
        return in_float32(model(batch.inputs).flatten(0, 1))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Summed cross-entropy of the counted targets in nats, in float32 at least.

        Above `CHUNK_ABOVE` words the logits are not held whole, if the model can leave its head to the loss.
        """
        if len(self.token_bytes) > CHUNK_ABOVE and getattr(model, "splits_head", False):
            head: Any = model.get_output_embeddings()  # type: ignore[operator]
            hidden = model(batch.inputs, head=False).flatten(0, 1)
            return linear_cross_entropy(hidden, head.weight, batch.targets.flatten(), IGNORED)
        return cross_entropy(self.logits(model, batch), batch.targets)

    def evaluate(
        self, model: nn.Module, split: str, micro_batch: int, device: torch.device, group: Group = ALONE
    ) -> dict[str, float]:
        """`loss`, `loss_biased` (nats per token), `perplexity`, `bits_per_byte` of the evaluated windows.

        `samples` is the number of tokens predicted.
        The text that bits per byte counts is that of the predicted tokens; an end of text has no bytes.
        """
        sums, counts, text_bytes = [], [], 0
        with evaluating(model):
            for batch in self._held_out(split):
                parts = batch.shard(group).split(micro_batch)
                losses = [self.loss(model, part.to(device)) for part in parts]
                sums.append(sum(loss.item() for loss in losses))
                counts.append(batch.count)
                counted = batch.targets[batch.targets != IGNORED]
                text_bytes += int(self.token_bytes[counted].sum())
        sums = group.all_reduce_sum(sums)
        means = mean_losses(sums, counts)
        perplexity = math.exp(means["loss"]) if means["loss"] < 700 else math.inf  # exp(710) overflows
        bits = sum(sums) / math.log(2) / text_bytes
        return {**means, "perplexity": perplexity, "bits_per_byte": bits, "samples": sum(counts)}

    def _windows(self, split: str) -> int:
        return (len(self.streams[split]) - 1) // self.seq_len

    def _held_out(self, split: str) -> Iterator[Batch]:
        available = self._windows(split)
        count = min(available, self.held_out_windows)
        windows = np.arange(count) * available // count
        starts = range(0, count, self.batch_size)
        return (self._gather(split, windows[start : start + self.batch_size]) for start in starts)

    def _gather(self, split: str, windows: npt.NDArray[np.int64]) -> Batch:
        positions = windows[:, None] * self.seq_len + np.arange(self.seq_len + 1)
        tokens = torch.from_numpy(self.streams[split][positions].astype(np.int64))
        return Batch(tokens[:, :-1], tokens[:, 1:], windows.size * self.seq_len)
