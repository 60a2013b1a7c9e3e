"""Pictures: which panels of a figure share one, and the caption that says once what they have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from htbench.harness.choice.winner import grouped
from htbench.harness.show.note import Note
from htbench.results.compare.winners import format_span
from htbench.results.figures.kinds import Panel

MOST_PANELS = 6  # of a picture


@dataclass(frozen=True)
class Picture:
    """A picture of a figure.

    Attributes:
        name: of its files, without suffix.
        groups: its panels, each group in rows of its own.
        shows: the beginning of its caption.
        shared: what is true of all its panels.
    """

    name: str
    groups: Sequence[Sequence[Panel]]
    shows: Note
    shared: Sequence[Note]

    @property
    def panels(self) -> list[Panel]:
        """All of them."""
        return [panel for group in self.groups for panel in group]

    @property
    def caption(self) -> str:
        """What is shown, and each fact that all panels share."""
        shows, *facts = map(str, [self.shows, *self.shared])
        return " · ".join([shows[:1].upper() + shows[1:], *facts])


def pictures(figure: str, groups: Sequence[Sequence[Panel]]) -> list[Picture]:
    """The pictures of a figure: one of six panels or fewer, else some for each group, by families.

    Args:
        figure: its name, and that of the first picture.
        groups: of panels that stand together: what is published, our runs at a scale, those of sweeps.
    """
    whole = (
        [groups]
        if sum(map(len, groups)) <= MOST_PANELS
        else [[own] for group in groups for own in _apart(group)]
    )
    return [
        _picture(figure, f"{figure}-{number}" if number > 1 else figure, own)
        for number, own in enumerate(whole, 1)
    ]


def _apart(group: Sequence[Panel]) -> list[list[Panel]]:
    """At most six panels each. Families stay together if they can, and the panels of a workload."""
    found: list[list[Panel]] = [[]]
    for family in grouped(group, lambda panel: panel.about.family).values():
        whole = (
            [family]
            if len(family) <= MOST_PANELS
            else grouped(family, lambda panel: panel.about.title).values()
        )
        for own in whole:
            for start in range(0, len(own), MOST_PANELS):
                part = own[start : start + MOST_PANELS]
                if len(found[-1]) + len(part) > MOST_PANELS:
                    found.append([])
                found[-1] += part
    return found


def _picture(figure: str, name: str, groups: Sequence[Sequence[Panel]]) -> Picture:
    about = [panel.about for group in groups for panel in group]
    seeds = [n for one in about for n in one.seeds]
    tried = [n for one in about for n in one.tried]
    metrics = list(dict.fromkeys(one.metric for one in about if one.metric))
    sample = Note(
        "figure_sample",
        seeds=format_span(seeds) if seeds else "",
        most=max(seeds, default=0),
        fresh=all(one.fresh for one in about),
        tried=format_span(tried) if max(tried, default=1) > 1 else "",
    )
    shared = [fact for fact in about[0].facts if all(fact in one.facts for one in about)]
    return Picture(
        name, groups, Note(f"shows_{figure}", metrics=metrics), [*([sample] if seeds else []), *shared]
    )
