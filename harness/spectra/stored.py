"""A weight in a file: its shape is known, its numbers are read when they are needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Stored:
    """One tensor of a file.

    Attributes:
        shape: of the tensor.
        dtype: its name, such as "bfloat16".
        read: return the tensor.
    """

    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], Tensor]
