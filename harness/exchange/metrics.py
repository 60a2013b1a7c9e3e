"""Names of metrics in other people's files, and which of them should be low or high."""

from __future__ import annotations

import re

HELD_OUT = ("val_", "test_")
TRAIN_LOSS = "train_loss"

# The last part of a metric's name says what it is: `val_top1_accuracy` is an accuracy.
_LOWER = "loss nll perplexity ppl error err mse rmse mae bpb bits_per_byte cross_entropy wer"
_HIGHER = "accuracy acc top1 top5 f1 auc map bleu precision recall r2"
_DIRECTIONS = {name: False for name in _LOWER.split()} | {name: True for name in _HIGHER.split()}
_SHARES = ("accuracy", "acc", "top1", "top5")

_SHORT = {"acc": "accuracy", "ppl": "perplexity"}

_NAME = re.compile(r"(val|test)[_/]([A-Za-z][A-Za-z0-9_.-]{0,60})")


def held_out(name: str) -> str:
    """`val_accuracy` of `val_accuracy`, `val/accuracy` or `val_acc`; empty if it is of no held-out split."""
    found = _NAME.fullmatch(name)
    return f"{found[1]}_{_SHORT.get(found[2], found[2])}" if found else ""


def is_known(name: str) -> bool:
    """Whether the table knows the direction of a metric, with or without its split."""
    return direction(name) is not None


def direction(name: str) -> bool | None:
    """Whether higher values of a metric are better; None if the table does not know it."""
    known = (one for one in _DIRECTIONS if name == one or name.endswith(f"_{one}"))
    return next((_DIRECTIONS[one] for one in known), None)


def is_share(name: str) -> bool:
    """Whether a metric is a share of correct answers, in [0, 1]."""
    return any(name == one or name.endswith(f"_{one}") for one in _SHARES)
