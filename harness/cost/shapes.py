"""The sizes that a task gives to a model, known without its data. Torch-free."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from htbench import models
from htbench.harness import tasks
from htbench.harness.config import RunConfig
from htbench.harness.data import copies, digits, glyphs, pydocs

LM, IMAGE = "lm", "image"
_NAMES = {LM: ("vocabulary", "max_length"), IMAGE: ("classes", "in_channels", "image_size")}
_USUAL = {"image_size": 32}  # ResNets take images of any size and have no setting for it


@dataclass(frozen=True)
class Shapes:
    """What a task offers to a model, as its `model_options` will.

    Attributes:
        kind: "lm" or "image".
        options: `vocabulary` and `max_length` (tokens of a sequence), or `classes`, `in_channels` and
            `image_size` (pixels of a side).
        assumed: whether they are those of the model, because the task tells none.
    """

    kind: str
    options: Mapping[str, int] = field(default_factory=dict)
    assumed: bool = False


def of(config: RunConfig) -> Shapes:
    """The sizes for the model of a resolved config; the model's own where the task is a user's.

    Raises:
        NotEstimatedError: neither task nor model tells them.
        UsageError: HTBENCH_PUBLISHED names no description of published data.
    """
    row, task = tasks.spec(config.task), config.task
    length = config.seq_len or row.seq_len
    if task not in tasks.TASKS:  # a user's, which tells no sizes
        model = models.spec(config.model)
        kind = row.kind if row.kind in _NAMES else model.kind
        model_sizes: dict[str, Any] = _USUAL | model.settings | ({"max_length": length} if length else {})
        missing = [name for name in _NAMES.get(kind, ("kind",)) if name not in model_sizes]
        if missing:
            raise NotEstimatedError(
                f"neither the task '{task}' nor the model '{config.model}' tells {' and '.join(missing)}"
            )
        return Shapes(kind, {name: int(model_sizes[name]) for name in _NAMES[kind]}, assumed=True)
    if task in ("pydocs", "pysource"):
        sizes = {"vocabulary": pydocs.VOCABULARY}
    elif task == "digits":
        sizes = {"classes": digits.CLASSES, "in_channels": 1, "image_size": 8}
    elif task == "glyphs":
        sizes = {"classes": len(glyphs.CHARACTERS), "in_channels": 1, "image_size": glyphs.SIDE}
    elif "tokenizer" in (published := copies.row(task)):
        sizes = {"vocabulary": published["tokenizer"]["vocabulary"]}
    else:
        sizes = {"classes": published["classes"], "in_channels": 3, "image_size": published["size"]}
    return Shapes(row.kind, sizes | ({"max_length": length} if row.kind == LM and length else {}))


class NotEstimatedError(Exception):
    """A run's cost can't be told before it runs; the message says why, as the end of a sentence."""
