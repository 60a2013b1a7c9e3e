"""The rows of the frame as mappings, for code that goes run by run: without pandas.

Notebooks have them as a frame of pandas: `results.frame`.
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from htbench.harness.choice.winner import grouped

Rows = Sequence[Mapping[str, Any]]


def parts(frame: Rows | None, columns: Sequence[str]) -> list[Rows]:
    """The parts that agree in some columns, in the order of their first rows."""
    return [] if frame is None else list(grouped(frame, itemgetter(*columns)).values())
