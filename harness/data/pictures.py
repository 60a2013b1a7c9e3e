"""Published sets of labelled images as tasks: which raw files there are, and the splits. Torch-free.

The final order is that of the images' hashes. So the splits are the same whichever raw files they come from.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from htbench.harness.data.cache import check_sizes
from htbench.harness.data.copies import Published
from htbench.harness.data.stamps import ImageFiles
from htbench.harness.errors import UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

    from htbench.harness.data.images import ImageTask

    Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Pictures(Published):
    """One published set.

    Attributes:
        mean, deviation: of each channel of the training images, as shares of 255.
    """

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    @property
    def prepared_by(self) -> str:
        """What makes the images ready."""
        return f"{self.mean} {self.deviation}"

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, S, S) of a prepared image."""
        side = int(self.published["side"])
        return (len(self.mean), side, side)

    # --- the functions of a row in the table of tasks ---

    def train_size(self, cache: Path, seq_len: int | None, protocol: str = "honest", **others: Any) -> int:
        """The number of training images of the published copy."""
        row = self.published
        return int(row["parts"]["train"]["images"] - (0 if protocol == "paper" else row["validation"]))

    def ready(self, cache: Path, samples: int | None, seq_len: int | None, **others: Any) -> None:
        """Raise UsageError, with the command to run, unless all is there in full size."""
        files = ImageFiles.read(self.folder(cache))
        if files is None:
            raise UsageError(
                f"The task '{self.task}' is not prepared in '{cache}'; "
                f"run `htbench data prepare {self.task}`."
            )
        check_sizes(self.folder(cache), files.sizes)

    def load(
        self, cache: Path, *, seq_len: int | None, augment: str = "none", mixup: float = 0.0, **settings: Any
    ) -> ImageTask:
        """The task, from what is prepared below `cache`. Raises UsageError if it is not."""
        from htbench.harness.data.augment import Recipe
        from htbench.harness.data.images import ImageTask

        self.ready(cache, None, seq_len)
        row = self.published
        recipe = Recipe(row["size"], self.mean, self.deviation, augment, mixup)
        return ImageTask.mapped(self.folder(cache), recipe, classes=row["classes"], **settings)


# --- the sets ---

# Photographs of 32x32 pixels: Krizhevsky, "Learning multiple layers of features from tiny images" (2009).
# Mean and deviation are those of all training images (github.com/akamaster/pytorch_resnet_cifar10/issues/9,
# and github.com/gpleiss/efficient_densenet_pytorch/issues/68).
CIFAR10 = Pictures("cifar10", mean=(0.4914, 0.4822, 0.4465), deviation=(0.2470, 0.2435, 0.2616))
CIFAR100 = Pictures("cifar100", mean=(0.5071, 0.4867, 0.4408), deviation=(0.2675, 0.2565, 0.2761))
# Photographs, cut to 256x256 pixels once; a model gets 224x224 of them. Russakovsky et al., "ImageNet large
# scale visual recognition challenge" (2015), arXiv 1409.0575. Mean and deviation are the customary ones
# (github.com/pytorch/examples, `imagenet/main.py`).
IMAGENET = Pictures("imagenet-1k", mean=(0.485, 0.456, 0.406), deviation=(0.229, 0.224, 0.225))
SETS = {pictures.task: pictures for pictures in (CIFAR10, CIFAR100, IMAGENET)}
