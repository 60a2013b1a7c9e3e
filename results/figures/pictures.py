"""Pictures: which panels of a figure share one, and the caption that says once what they have in common."""

from collections.abc import Sequence
from dataclasses import dataclass

from htbench.harness.choice.winner import grouped
from htbench.harness.show.note import Note
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


def arrange_pictures(figure: str, groups: Sequence[Sequence[Panel]]) -> list[Picture]:
    """The pictures of a figure: one of six panels or fewer, else some for each group, by families.

    Args:
        figure: its name, and that of the first picture.
        groups: of panels that stand together: what is published, our runs at a scale, those of sweeps.
    """
    whole = (
        [groups]
        if sum(map(len, groups)) <= MOST_PANELS
        else [[chunk] for group in groups for chunk in _split_group(group)]
    )
    arranged = []
    for number, panel_groups in enumerate(whole, 1):
        about = [panel.about for group in panel_groups for panel in group]
        seeds = [n for panel in about for n in panel.seeds]
        tried = [n for panel in about for n in panel.tried]
        sample = Note(
            "figure_sample",
            seeds=format_span(seeds) if seeds else "",
            most=max(seeds, default=0),
            fresh=all(panel.fresh for panel in about),
            tried=format_span(tried) if max(tried, default=1) > 1 else "",
        )
        shared = [fact for fact in about[0].facts if all(fact in panel.facts for panel in about)]
        metrics = list(dict.fromkeys(panel.metric for panel in about if panel.metric))
        shows = Note(f"shows_{figure}", metrics=metrics)
        name = f"{figure}-{number}" if number > 1 else figure
        arranged.append(Picture(name, panel_groups, shows, [*([sample] if seeds else []), *shared]))
    return arranged


def format_span(numbers: Sequence[int]) -> str:
    """The least and the greatest of some numbers: "3", or "1-3"."""
    return "-".join(map(str, dict.fromkeys((min(numbers), max(numbers)))))


def _split_group(group: Sequence[Panel]) -> list[list[Panel]]:
    """At most six panels each. Families stay together if they can, and the panels of a workload."""
    chunks: list[list[Panel]] = [[]]
    for family in grouped(group, lambda panel: panel.about.family).values():
        whole = (
            [family]
            if len(family) <= MOST_PANELS
            else grouped(family, lambda panel: panel.about.title).values()
        )
        for panels in whole:
            for start in range(0, len(panels), MOST_PANELS):
                part = panels[start : start + MOST_PANELS]
                if len(chunks[-1]) + len(part) > MOST_PANELS:
                    chunks.append([])
                chunks[-1] += part
    return chunks
