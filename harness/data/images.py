"""Classification of images: float tensors in memory, or memory-mapped bytes that a recipe makes ready."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from htbench.harness.data.augment import Augmented, Recipe, draws
from htbench.harness.data.order import batch_indices
from htbench.harness.data.stamps import IMAGES, INDEX, ImageFiles
from htbench.harness.data.task import (
    IGNORED,
    SPLITS,
    Batch,
    Scores,
    cross_entropy,
    each_item,
    evaluating,
    in_float32,
    mean_losses,
)
from htbench.harness.parallel.group import ALONE, Group


class Mapped:
    """Images of a part that stay on the disk, with their classes.

    Args:
        folder: of the prepared data.
        files: its stamp.
        part: "train" or "test".

    Attributes:
        labels: int64 (N,).
    """

    def __init__(self, folder: Path, files: ImageFiles, part: str) -> None:
        index = np.fromfile(folder / (part + INDEX), dtype=np.int64).reshape(2, -1)
        self._rows, self.labels = index[0], torch.from_numpy(index[1])
        self._folder, self._shape, self._sizes = folder, files.shape, list(files.parts[part].items())
        self._starts = np.cumsum([0, *(size for _, size in self._sizes)])
        self._open: dict[int, npt.NDArray[Any]] = {}

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(N, C, S, S)."""
        return (len(self), *self._shape)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, chosen: Tensor) -> Tensor:
        """The chosen images as uint8 (n, C, S, S)."""
        rows = self._rows[chosen.numpy()]
        shards = np.searchsorted(self._starts, rows, side="right") - 1
        images = np.empty((len(rows), *self._shape), dtype=np.uint8)
        for shard in np.unique(shards).tolist():
            here = shards == shard
            images[here] = self._map(shard)[rows[here] - self._starts[shard]]
        return torch.from_numpy(images)

    def cut(self, start: int, stop: int | None) -> Mapped:
        """Those from `start` to `stop`."""
        part = copy.copy(self)
        part._rows, part.labels = self._rows[start:stop], self.labels[start:stop]
        return part

    def _map(self, shard: int) -> npt.NDArray[Any]:
        if shard not in self._open:
            name, size = self._sizes[shard]
            path, shape = self._folder / (name + IMAGES), (size, *self._shape)
            self._open[shard] = np.memmap(path, dtype=np.uint8, mode="r", shape=shape)
        return self._open[shard]


def splits(folder: Path, protocol: str) -> dict[str, Mapped]:
    """The images of every split of a prepared folder.

    With protocol "paper" validation images are trained on, too, and the test split stands for them.
    """
    files = ImageFiles.read(folder)
    assert files is not None, f"nothing is prepared in {folder}"
    train, test = (Mapped(folder, files, part) for part in ("train", "test"))
    if protocol == "paper":
        return {"train": train, "val": test, "test": test}
    return {"train": train.cut(files.validation, None), "val": train.cut(0, files.validation), "test": test}


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
        images: Mapping[str, Tensor] | Mapping[str, Mapped],
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
        """The task of a folder in the layout of `stamps`; its images stay on the disk."""
        images = splits(folder, protocol)
        labels = {split: some.labels for split, some in images.items()}
        return cls(images, labels, recipe=recipe, **settings)

    def batch(self, step: int, group: Group = ALONE) -> Batch:
        """Images (batch_size, C, H, W) and classes (batch_size,) of 0-based `step`."""
        chosen = torch.from_numpy(batch_indices(self.epoch_size, self.batch_size, self.data_seed, step))
        count = int((self.labels["train"][chosen] != IGNORED).sum())
        if self.recipe is None:
            ours = group.shard(chosen)
            return Batch(self.images["train"][ours], self.labels["train"][ours], count)
        places = group.shard(torch.arange(len(chosen)))
        size = len(places)
        if self.recipe.mixup and size:  # every sample is mixed with the next one of the global batch
            places = torch.cat([places, (places[-1:] + 1) % len(chosen)])
        images, labels = self.images["train"][chosen[places]], self.labels["train"][chosen[places]]
        drawn = draws(len(chosen), self.data_seed, step)[places]
        neighbours = (images, labels) if self.recipe.mixup else ()
        return Batch(images[:size], labels[:size], count, Augmented(self.recipe, drawn, *neighbours))

    def logits(self, model: nn.Module, batch: Batch) -> Tensor:
        """Logits (B, classes) in float32 at least."""
        return in_float32(model(batch.inputs))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Summed cross-entropy in nats, in float32 at least; of mixed samples that of both classes."""
        logits = self.logits(model, batch)
        if batch.mix is None:
            return cross_entropy(logits, batch.targets)
        first = F.cross_entropy(logits, batch.targets, reduction="none")  # Zhang et al., arXiv 1710.09412
        second = F.cross_entropy(logits, batch.mix.targets, reduction="none")
        return torch.lerp(second, first, batch.mix.weights).sum()

    def evaluate(
        self, model: nn.Module, split: str, micro_batch: int, device: torch.device, group: Group = ALONE
    ) -> dict[str, float]:
        """`loss`, `loss_biased` (nats per image), `accuracy` (a fraction), `samples` of the whole `split`."""
        return self.score(model, split, micro_batch, device, group).metrics

    def score(
        self, model: nn.Module, split: str, micro_batch: int, device: torch.device, group: Group = ALONE
    ) -> Scores:
        """The losses of all images of `split` and which of them are right; arguments as of `evaluate`."""

        def measure(chosen: Tensor) -> tuple[Tensor, Tensor]:
            part = self._held_out(split, chosen).to(device)
            logits = self.logits(model, part)
            losses = F.cross_entropy(logits, part.targets, reduction="none")
            return losses, logits.argmax(dim=1) == part.targets

        samples = len(self.images[split])
        with evaluating(model):
            sums, correct = each_item(samples, self.batch_size, micro_batch, group, measure)
        every, counts = np.arange(samples), np.ones(samples, dtype=np.int64)
        metrics = mean_losses(sums, counts, self.batch_size)
        metrics |= {"accuracy": int(correct.sum()) / samples, "samples": samples}
        return Scores(metrics, sums, counts, every, every, samples, correct.astype(bool))

    def _held_out(self, split: str, chosen: Tensor) -> Batch:
        return Batch.of(self.images[split][chosen], self.labels[split][chosen], self.recipe)
