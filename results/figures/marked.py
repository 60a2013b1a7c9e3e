"""Marks of figures: which values rest on a choice that may still change, or on runs of unlike environments.

They are those of tables, found by the runs behind each value, whatever figure shows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from results.compare.contender import reach
from results.compare.select import OPTIMIZER, WORKLOAD, choose, has_stages
from results.figures.kinds import Panel, lines
from results.figures.of_losses import Losses
from results.figures.style import display_name
from results.frames.metrics import reported, word
from results.frames.provenance import CAN_CHANGE, is_told
from results.frames.rows import Frame, parts

_WORDS = {
    "edge": "best at an edge of what was tried",
    "not_final": "not final",
    "stale": "seeds seen by a search",
    "mixture_cell": "unlike environments",
}


@dataclass(frozen=True)
class Marks:
    """What is known of runs, by their keys.

    Attributes:
        choices: kinds of notes on the choice that a run belongs to.
        environments: what can change the numbers of a run.
    """

    choices: Mapping[str, tuple[str, ...]]
    environments: Mapping[str, tuple[str, ...]]

    def of(self, keys: Sequence[str]) -> list[str]:
        """The kinds of notes on a value of these runs."""
        mixed = len({self.environments[key] for key in keys if key in self.environments}) > 1
        found = {kind for key in keys for kind in self.choices.get(key, ())}
        return [kind for kind in _WORDS if kind in found or (kind == "mixture_cell" and mixed)]

    def of_panel(self, panel: Panel | Losses) -> list[list[str]]:
        """Those of all values of a panel, or of the curves that it is made of."""
        if isinstance(panel, Losses):
            return [self.of([curve.key for curve in own]) for own in panel.runs.values()]
        return [self.of(keys or ()) for keys in panel.frame["keys"]]


def marks(frame: Frame | None) -> Marks:
    """The marks of all runs of a frame; None has none."""
    choices: dict[str, tuple[str, ...]] = {}
    environments: dict[str, tuple[str, ...]] = {}
    for part in parts(frame, WORKLOAD) if frame is not None else ():
        metric = reported(part)[0]
        for run in part:
            if is_told(run):
                environments[str(run["key"])] = tuple(word(run.get(name)) for name in CAN_CHANGE)
        for choice in choose(part, OPTIMIZER):
            if choice.winner is None or not has_stages(choice.winner.runs[0]):
                continue
            kinds = {"edge": reach(choice, metric), "not_final": choice.unfinished, "stale": choice.stale}
            own = tuple(kind for kind, found in kinds.items() if found)
            choices |= {str(run["key"]): own for run in [*choice.winner.runs, *choice.replicas] if own}
    return Marks(choices, environments)


def marked(panel: Panel, known: Marks) -> Panel:
    """The panel with the marks of each value, and below its title whose values have one."""
    found = known.of_panel(panel)
    who: dict[str, dict[str, None]] = {}
    for kinds, optimizer, series in zip(found, panel.frame["optimizer"], panel.frame["series"], strict=True):
        for kind in kinds:
            who.setdefault(kind, {})[display_name(optimizer) if optimizer else str(series)] = None
    told = [f"{text}: {', '.join(who[kind])}" for kind, text in _WORDS.items() if kind in who]
    frame = panel.frame.assign(marks=[" ".join(kinds) for kinds in found])
    return replace(panel, frame=frame, subtitle=lines(panel.subtitle, *told))
