"""What tables are asked to show: which runs, and what of the paper beside them."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence

import pandas as pd

from harness.paper import experiments, scales
from harness.store import Store
from results.compare.ours import Ours, of_scale

SOURCES = ("both", "published", "runs")


class View:
    """What tables are made of.

    Args:
        frame: the tidy frame; None: no runs are shown.
        source: one of SOURCES.
        chosen: the scales of the paper's experiments to show; None: those that are planned.
        store: where the curves are; without it times to a target are not known.
        named: the tables that are asked for by name; empty if all are.
    """

    def __init__(
        self,
        frame: pd.DataFrame | None = None,
        source: str = "both",
        chosen: Sequence[str] | None = None,
        store: Store | None = None,
        named: Collection[str] = (),
    ) -> None:
        self.frame = None if source == "published" else frame
        self.published = source != "runs"
        self.asked = source == "published"  # for published numbers, whatever is planned
        self.store = store
        self._named = named
        self._chosen = chosen

    def is_asked_for(self, name: str) -> bool:
        """Whether to show a table without runs of ours: it is named, or published numbers are asked for."""
        return self.asked or (self.published and name in self._named)

    @functools.cached_property
    def scales(self) -> list[str]:
        """The scales whose runs are shown."""
        if self.frame is None:
            return []
        planned = {experiments.scale_of(str(name)) for name in self.frame["sweep"].unique()}
        return [one for one in scales.SCALES if one in (planned if self._chosen is None else self._chosen)]

    @functools.cached_property
    def others(self) -> pd.DataFrame | None:
        """The runs of sweeps that belong to no experiment of the paper."""
        return None if self.frame is None else of_scale(self.frame, "")

    @functools.cache  # noqa: B019 - lives as long as one command
    def ours(self, scale: str) -> Ours:
        """The runs of a scale."""
        assert self.frame is not None
        return Ours(self.frame, scale, self.store)
