"""Classification of images that fit in memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from harness.data.order import batch_indices
from harness.data.task import IGNORED, SPLITS, Batch, cross_entropy, evaluating, in_float32, mean_losses
from harness.parallel.group import ALONE, Group


class ImageTask:
    """Images in, classes out.

    Args:
        images: float32 (N, C, H, W) of each split, standardised.
        labels: int64 (N,) of each split.
        classes: number of classes.
        batch_size: images of a global batch.
        data_seed: seed of the order of the training images.
    """

    metric = "accuracy"

    def __init__(
        self,
        images: Mapping[str, Tensor],
        labels: Mapping[str, Tensor],
        *,
        classes: int,
        batch_size: int,
        data_seed: int,
    ) -> None:
        self.images, self.labels = images, labels
        self.batch_size, self.data_seed = batch_size, data_seed
        self.model_options = {"classes": classes, "in_channels": images["train"].shape[1]}
        self.epoch_size = len(images["train"])

    @classmethod
    def open(cls, file: Path, *, protocol: str = "honest", **settings: int) -> ImageTask:
        """The task of an .npz file with `<split>_images` and `<split>_labels` of every split.

        With protocol "paper" validation images are trained on, too, and the test split stands for them.
        """
        with np.load(file) as arrays:
            images = {split: torch.from_numpy(arrays[f"{split}_images"]) for split in SPLITS}
            labels = {split: torch.from_numpy(arrays[f"{split}_labels"]) for split in SPLITS}
        if protocol == "paper":
            for part in (images, labels):
                part |= {"train": torch.cat([part["train"], part["val"]]), "val": part["test"]}
        return cls(images, labels, **settings)

    def batch(self, step: int, group: Group = ALONE) -> Batch:
        """Images (batch_size, C, H, W) and classes (batch_size,) of 0-based `step`."""
        chosen = torch.from_numpy(batch_indices(self.epoch_size, self.batch_size, self.data_seed, step))
        count = int((self.labels["train"][chosen] != IGNORED).sum())
        ours = group.shard(chosen)
        return Batch(self.images["train"][ours], self.labels["train"][ours], count)

    def logits(self, model: nn.Module, batch: Batch) -> Tensor:
        """Logits (B, classes) in float32 at least."""
        return in_float32(model(batch.inputs))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Summed cross-entropy in nats, in float32 at least."""
        return cross_entropy(self.logits(model, batch), batch.targets)

    def evaluate(
        self, model: nn.Module, split: str, micro_batch: int, device: torch.device, group: Group = ALONE
    ) -> dict[str, float]:
        """`loss`, `loss_biased` (nats per image), `accuracy` (a fraction), `samples` of the whole `split`."""
        sums, counts, correct = [], [], 0.0
        with evaluating(model):
            for batch in Batch.of(self.images[split], self.labels[split]).split(self.batch_size):
                total = 0.0
                for part in batch.shard(group).split(micro_batch):
                    part = part.to(device)
                    logits = self.logits(model, part)
                    total += cross_entropy(logits, part.targets).item()
                    correct += int((logits.argmax(dim=1) == part.targets).sum())
                sums.append(total)
                counts.append(batch.count)
        *sums, correct = group.all_reduce_sum([*sums, correct])
        samples = sum(counts)
        return {**mean_losses(sums, counts), "accuracy": correct / samples, "samples": samples}
