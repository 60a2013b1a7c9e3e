"""Classification of images: float tensors in memory, or memory-mapped bytes that a recipe makes ready."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harness.data.augment import Augmented, Recipe, draws
from harness.data.image_files import ImageFiles, Images
from harness.data.order import batch_indices
from harness.data.task import (
    IGNORED,
    SPLITS,
    Batch,
    Mix,
    cross_entropy,
    evaluating,
    in_float32,
    mean_losses,
)
from harness.parallel.group import ALONE, Group


class Rows:
    """The images of a split, which stay on the disk; a tensor of the chosen ones is made when asked for."""

    def __init__(self, images: Images) -> None:
        self.images, self.shape = images, images.shape

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, chosen: Tensor) -> Tensor:
        return torch.from_numpy(self.images.gather(chosen.numpy()))


class ImageTask:
    """Images in, classes out.

    Args:
        images: (N, C, H, W) of each split: float32 and standardised, or uint8 with a recipe.
        labels: int64 (N,) of each split.
        classes: number of classes.
        batch_size: images of a global batch.
        data_seed: seed of the order of the training images, and of what the recipe draws.
        recipe: how bytes become the model's images; None: they are ready.
    """

    metric = "accuracy"

    def __init__(
        self,
        images: Mapping[str, Tensor] | Mapping[str, Rows],
        labels: Mapping[str, Tensor],
        *,
        classes: int,
        batch_size: int,
        data_seed: int,
        recipe: Recipe | None = None,
    ) -> None:
        self.images, self.labels, self.recipe = images, labels, recipe
        self.batch_size, self.data_seed = batch_size, data_seed
        _, channels, side, _ = images["train"].shape
        self.model_options = {
            "classes": classes,
            "in_channels": channels,
            "image_size": recipe.size if recipe else side,
        }
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
        return cls(images, labels, recipe=None, **settings)

    @classmethod
    def mapped(cls, folder: Path, recipe: Recipe, *, protocol: str = "honest", **settings: int) -> ImageTask:
        """The task of a folder in the layout of `image_files`; its images stay on the disk."""
        files = ImageFiles.read(folder)
        assert files is not None, f"nothing is prepared in {folder}"
        splits = files.splits(folder, protocol)
        images = {split: Rows(found) for split, found in splits.items()}
        labels = {split: torch.from_numpy(found.labels) for split, found in splits.items()}
        return cls(images, labels, recipe=recipe, **settings)

    def batch(self, step: int, group: Group = ALONE) -> Batch:
        """Images (batch_size, C, H, W) and classes (batch_size,) of 0-based `step`."""
        chosen = torch.from_numpy(batch_indices(self.epoch_size, self.batch_size, self.data_seed, step))
        count = int((self.labels["train"][chosen] != IGNORED).sum())
        ours = group.shard(chosen)
        if self.recipe is None:
            return Batch(self.images["train"][ours], self.labels["train"][ours], count)
        return self._augmented(chosen, count, step, group, self.recipe)

    def _augmented(self, chosen: Tensor, count: int, step: int, group: Group, recipe: Recipe) -> Batch:
        """This process's bytes of a global batch, with the random numbers for them."""
        places = group.shard(torch.arange(len(chosen)))
        size = len(places)
        if recipe.mixup and size:  # every sample is mixed with the next one of the global batch
            places = torch.cat([places, (places[-1:] + 1) % len(chosen)])
        images, labels = self.images["train"][chosen[places]], self.labels["train"][chosen[places]]
        drawn = draws(len(chosen), self.data_seed, step)[places]
        neighbours = (images, labels) if recipe.mixup else ()
        return Batch(images[:size], labels[:size], count, Augmented(recipe, drawn, *neighbours))

    def logits(self, model: nn.Module, batch: Batch) -> Tensor:
        """Logits (B, classes) in float32 at least."""
        return in_float32(model(batch.inputs))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Summed cross-entropy in nats, in float32 at least; of mixed samples that of both classes."""
        logits = self.logits(model, batch)
        return cross_entropy(logits, batch.targets) if batch.mix is None else mixed(logits, batch, batch.mix)

    def evaluate(
        self, model: nn.Module, split: str, micro_batch: int, device: torch.device, group: Group = ALONE
    ) -> dict[str, float]:
        """`loss`, `loss_biased` (nats per image), `accuracy` (a fraction), `samples` of the whole `split`."""
        sums, counts, correct = [], [], 0.0
        samples = len(self.images[split])
        with evaluating(model):
            for whole in torch.split(torch.arange(samples), self.batch_size):
                total = 0.0
                for chosen in torch.split(group.shard(whole), micro_batch):
                    part = self._held_out(split, chosen).to(device)
                    logits = self.logits(model, part)
                    total += cross_entropy(logits, part.targets).item()
                    correct += int((logits.argmax(dim=1) == part.targets).sum())
                sums.append(total)
                counts.append(len(whole))
        *sums, correct = group.all_reduce_sum([*sums, correct])
        return {**mean_losses(sums, counts), "accuracy": correct / samples, "samples": samples}

    def _held_out(self, split: str, chosen: Tensor) -> Batch:
        return Batch.of(self.images[split][chosen], self.labels[split][chosen], self.recipe)


def mixed(logits: Tensor, batch: Batch, mix: Mix) -> Tensor:
    """Summed cross-entropy of mixed samples (Zhang et al., arXiv 1710.09412)."""
    first = F.cross_entropy(logits, batch.targets, reduction="none")
    second = F.cross_entropy(logits, mix.targets, reduction="none")
    return torch.lerp(second, first, mix.weights).sum()
