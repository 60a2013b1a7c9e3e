"""A task of texts of unequal length, filled up to seq_len with targets that are not counted."""

import numpy as np
import torch

from htbench.harness.data.order import batch_indices
from htbench.harness.data.task import IGNORED, SPLITS, Batch
from htbench.harness.data.text import TextTask
from htbench.harness.parallel.group import ALONE
from htbench.harness.tasks import TaskSpec

TASK = TaskSpec(
    name="padded",
    kind="lm",
    metric="perplexity",
    higher_is_better=False,
    fingerprint=f"{__name__}:fingerprint",
    loader=f"{__name__}:load",
    adamw_lr=4e-3,
    seq_len=16,
)


def fingerprint():
    return "made up"


def load(cache, *, batch_size, seq_len, data_seed):
    steps = np.random.default_rng(0).integers(1, 4, 4001)
    tokens = (np.cumsum(steps) % 50).astype(np.uint16)  # the next token is one of three
    settings = {"batch_size": batch_size, "seq_len": seq_len, "data_seed": data_seed}
    return Padded(dict.fromkeys(SPLITS, tokens), np.ones(50), held_out_tokens=512, **settings)


class Padded(TextTask):
    """Only training text is padded."""

    def batch(self, step, group=ALONE):
        windows = batch_indices(self.epoch_size, self.batch_size, self.data_seed, step)
        whole = self._take("train", windows, ALONE)
        lengths = torch.from_numpy(windows % self.seq_len + 1)
        padding = torch.arange(self.seq_len) >= lengths[:, None]
        targets = whole.targets.masked_fill(padding, IGNORED)
        return Batch(group.shard(whole.inputs), group.shard(targets), int(lengths.sum()))
