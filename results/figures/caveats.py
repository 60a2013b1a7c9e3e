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
from htbench.results.frames.rows import Rows, parts

KINDS = ("edge", "not_final", "stale", "fresh_left_out", "mixture_cell")
_MOST_NAMES = 4  # above a panel; the CSV file has all


@dataclass(frozen=True)
class Caveats:
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
        choice_kinds = {kind for key in keys for kind in self.choices.get(key, ())}
        return [kind for kind in KINDS if kind in choice_kinds or (kind == "mixture_cell" and mixed)]


def find_caveats(frame: Rows | None) -> Caveats:
    """The marks of all runs of a frame; None has none."""
    choices: dict[str, tuple[str, ...]] = {}
    environments: dict[str, tuple[str, ...]] = {}
    for part in parts(frame, WORKLOAD):
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
            noted = tuple(kind for kind, is_true in kinds.items() if is_true)
            choices |= {str(run["key"]): noted for run in [*choice.winner.runs, *choice.replicas] if noted}
    return Caveats(choices, environments)


def add_caveats(panel: Panel, caveats: Caveats) -> Panel:
    """The panel with the marks of each value, and with a note for each kind of them that says whose."""
    names: dict[str, dict[str, None]] = {}  # of those that a kind concerns
    words = []
    columns = (panel.frame[name] for name in ("optimizer", "series", "keys"))
    for optimizer, series, keys in zip(*columns, strict=True):
        kinds = caveats.of(keys or ())
        for kind in kinds:
            names.setdefault(kind, {})[display_name(str(optimizer or series))] = None
        words.append(" ".join(kinds))
    notes = []
    for kind in (kind for kind in KINDS if kind in names):
        most = _MOST_NAMES if len(names[kind]) <= _MOST_NAMES else _MOST_NAMES - 1
        more = max(0, len(names[kind]) - most)
        notes.append(Note(f"mark_{kind}", names=[*names[kind]][:most], more=more))
    return replace(panel, about=panel.about.noted(*notes), frame=panel.frame.assign(marks=words))


def is_caveat(note: Note) -> bool:
    """Whether a note tells what could change a conclusion."""
    return note.kind in {f"mark_{kind}" for kind in KINDS}
