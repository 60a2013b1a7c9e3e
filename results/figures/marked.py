"""Marks of figures: which values rest on a choice that may still change, or on runs of unlike environments.

They are those of tables, found by the runs behind each value, whatever figure shows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from htbench.harness.show.note import Note
from htbench.results.compare.contender import estimate_gains
from htbench.results.compare.select import OPTIMIZER, WORKLOAD, choose, has_stages
from htbench.results.figures.kinds import Panel
from htbench.results.figures.style import display_name
from htbench.results.frames.metrics import reported, word
from htbench.results.frames.provenance import CAN_CHANGE, OF_A_ROW, is_told
from htbench.results.frames.rows import Frame, parts

KINDS = ("edge", "not_final", "stale", "fresh_left_out", "mixture_cell")
_MOST_NAMES = 4  # above a panel; the CSV file has all


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
        return [kind for kind in KINDS if kind in found or (kind == "mixture_cell" and mixed)]


def marks(frame: Frame | None) -> Marks:
    """The marks of all runs of a frame; None has none."""
    choices: dict[str, tuple[str, ...]] = {}
    environments: dict[str, tuple[str, ...]] = {}
    for part in parts(frame, WORKLOAD) if frame is not None else ():
        metric = reported(part)[0]
        for run in part:
            if is_told(run):
                environments[str(run["key"])] = tuple(word(run.get(name)) for name in (*CAN_CHANGE, OF_A_ROW))
        for choice in choose(part, OPTIMIZER):
            if choice.winner is None or not has_stages(choice.winner.runs[0]):
                continue
            kinds = {
                "edge": estimate_gains(choice, metric),
                "not_final": choice.unfinished,
                "stale": choice.stale,
            }
            kinds["fresh_left_out"] = choice.left_out
            own = tuple(kind for kind, found in kinds.items() if found)
            choices |= {str(run["key"]): own for run in [*choice.winner.runs, *choice.replicas] if own}
    return Marks(choices, environments)


def marked(panel: Panel, known: Marks) -> Panel:
    """The panel with the marks of each value, and with a note for each kind of them that says whose."""
    who: dict[str, dict[str, None]] = {}
    words = []
    columns = (panel.frame[name] for name in ("optimizer", "series", "keys"))
    for optimizer, series, keys in zip(*columns, strict=True):
        kinds = known.of(keys or ())
        for kind in kinds:
            who.setdefault(kind, {})[display_name(str(optimizer or series))] = None
        words.append(" ".join(kinds))
    told = (_told(f"mark_{kind}", list(who[kind])) for kind in KINDS if kind in who)
    return replace(panel, about=panel.about.noted(*told), frame=panel.frame.assign(marks=words))


def _told(kind: str, names: list[str]) -> Note:
    shown = names if len(names) <= _MOST_NAMES else names[: _MOST_NAMES - 1]
    return Note(kind, names=shown, more=len(names) - len(shown))


def is_mark(note: Note) -> bool:
    """Whether a note tells what could change a conclusion."""
    return note.kind in {f"mark_{kind}" for kind in KINDS}
