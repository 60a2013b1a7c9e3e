"""Settings that do nothing at the size or the length of a run: its row is not what its name says.

Records of any age tell it: it takes settings, the steps of a run and the widths of our models.
"""

from collections.abc import Mapping
from typing import Any

from htbench import models
from htbench.harness.show.note import Note
from htbench.optimizers.zoo.registry import PERIODS, ZOO
from htbench.results.frames.metrics import is_number

_PERIODS = (*PERIODS, "curvature_interval")


def note_idle_settings(run: Mapping[str, Any]) -> tuple[Note, ...]:
    """The notes on settings that do nothing in a run; else, if its record says so, on a rule of little reach.

    Args:
        run: a finished one.
    """
    row, size, notes = ZOO.get(str(run["rule"])), models.SIZES.get(str(run["model"])), list[Note]()
    if row is None:
        return ()
    sides: Mapping[str, Any] = {} if size is None else size.settings
    width, wide, rank = sides.get("hidden"), sides.get("intermediate", 0), run.get("rank")
    if width and isinstance(rank, int | float) and rank >= width and run.get("side") != "left":
        facts = {"rank": int(rank), "width": width, "columns": wide if wide > rank else None}
        kind = f"idle_{row.name}" if row.name in ("galore", "cosmos") else "idle_rank"
        notes.append(Note(kind, name=row.name, scale=run.get("scale"), **facts))
    for name in filter(row.params.__contains__, _PERIODS):
        every, steps = run.get(name), int(run["steps"])
        if isinstance(every, int | float) and every >= steps > 1 and not row.params[name].is_inert(run):
            notes.append(Note("idle_period", name=row.name, setting=name, every=int(every), steps=steps))
    if not notes and is_number(run.get("reach")):
        notes.append(Note("little_reach", percent=run["reach"]))
    return tuple(notes)
