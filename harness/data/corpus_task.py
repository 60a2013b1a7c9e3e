"""Language modelling on a prepared corpus of any size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from harness.data.order import sharded_indices
from harness.data.prepared import Prepared, Shard
from harness.data.rows import Ints, Rows
from harness.data.task import Batch
from harness.data.text import TextTask
from harness.data.tokenizer import TOKEN_BYTES
from harness.errors import UsageError
from harness.parallel.group import ALONE, Group


class CorpusTask(TextTask):
    """Next-token prediction on rows of a corpus; loss and figures are those of `TextTask`.

    Args:
        folder: of the prepared data.
        shards: of each split, in their order.
        prepared: the stamp of the folder.
        complete: whether the whole corpus is prepared, so that another epoch may follow.
        layout: "padded" or "packed".
        batch_size: rows of a global batch, in training and in evaluation.
        seq_len: T, tokens of a row.
        data_seed: seed of the order within each shard.
        held_out_tokens: about so many targets of each held-out split are evaluated, spread evenly over it.
    """

    def __init__(
        self,
        folder: Path,
        shards: Mapping[str, Sequence[Shard]],
        prepared: Prepared,
        *,
        complete: bool,
        layout: str,
        batch_size: int,
        seq_len: int,
        data_seed: int,
        held_out_tokens: int,
    ) -> None:
        self.rows = {name: Rows(folder, some, prepared, layout, seq_len) for name, some in shards.items()}
        for name, some in self.rows.items():
            if not len(some):
                raise UsageError(f"seq_len={seq_len} is longer than all text of '{name}' in '{folder}'.")
        self.complete, self.held_out_tokens = complete, held_out_tokens
        self.batch_size, self.seq_len, self.data_seed = batch_size, seq_len, data_seed
        self.token_bytes = torch.from_numpy(np.load(folder / TOKEN_BYTES).astype(np.int64))
        self.model_options = {"vocabulary": prepared.vocabulary, "max_length": seq_len}
        self.epoch_size = len(self.rows["train"])

    def batch(self, step: int, group: Group = ALONE) -> Batch:
        """Inputs and targets (batch_size, T) of 0-based `step`."""
        rows = self.rows["train"]
        if (step + 1) * self.batch_size > len(rows) and not self.complete:
            raise UsageError(
                f"Step {step} is beyond the {len(rows)} training samples that are prepared in "
                f"'{rows.folder}'; prepare more of them with `htbench data prepare`."
            )
        chosen = sharded_indices(rows.starts, self.batch_size, self.data_seed, step)
        return self._take(rows, chosen, group)

    def _held_out(self, split: str) -> Iterator[Batch]:
        rows = self.rows[split]
        chosen = np.fromiter(rows.spread(self.held_out_tokens), dtype=np.int64)
        for start in range(0, len(chosen), self.batch_size):
            yield self._take(rows, chosen[start : start + self.batch_size], ALONE)

    def _take(self, rows: Rows, chosen: Ints, group: Group) -> Batch:
        """This process's part of the chosen rows, with the count of all."""
        inputs, targets = rows.gather(group.shard(torch.from_numpy(chosen)).numpy())
        return Batch(torch.from_numpy(inputs), torch.from_numpy(targets), int(rows.counts(chosen).sum()))
