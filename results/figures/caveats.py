"""Marks of figures: above a panel, and in the CSV file at each value (`results.compare.caveats`)."""

from dataclasses import replace

from htbench.harness.show.note import Note
from htbench.results.compare.caveats import KINDS, Caveats
from htbench.results.figures.kinds import Panel
from htbench.results.figures.style import display_name

_MOST_NAMES = 4  # above a panel; the CSV file has all


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
