"""The end of `htbench sweep run` and `htbench demo`: who is better on each workload, and where to read on."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from htbench.harness.choice.winner import grouped
from htbench.harness.show.commands import write_command
from htbench.harness.show.emit import say
from htbench.harness.show.note import Note
from htbench.harness.show.report import Report, Section
from htbench.harness.show.status import ENDED, Status
from htbench.harness.store import Store
from htbench.harness.store.points import DROPPED, sweep_names
from htbench.results.figures.declared import FIGURES
from htbench.results.figures.files import PNG, of_selection
from htbench.results.frames.load import load_rows
from htbench.results.tables.answer import Answer, answers

_MOST, _MOST_DOUBTS = 5, 3  # lines on workloads, and on what could change them: a screen has 24
_MOST_NAMES = 2  # of workloads in a line
# No run could change these: they stand last.
_MILD = tuple(f"danger_fixed_{kind}" for kind in ("everywhere", "not_default", "unlike", "unrecorded"))
# What is reported may be false: these stand first.
_GRAVE = ("danger_mixture", "danger_fresh_left_out", "danger_row_dropped")


def ending(
    store: Store, sweeps: Collection[str], seconds: float, page: Path | None = None, small: bool = False
) -> Report:
    """What some sweeps have found.

    Args:
        store: where the runs are.
        sweeps: their names; all are planned.
        seconds: that the command took.
        page: the report, if it has been written, with the figures beside it.
        small: whether the workloads are too small to rank optimizers in general.
    """
    frame = load_rows(store, sweeps, say)
    wanted = [row for row in frame if row["sweep"] in sweeps and row["stage"] != DROPPED]
    states = list({row["key"] or row["slot"]: row["state"] for row in wanted}.values())
    found = answers(frame, store)
    named = dict(zip(_labels(found), found, strict=True))
    verdicts = [Note("end_verdict", workload=label, **_verdict(own)) for label, own in named.items()]
    dangers = grouped(
        [(label, note) for label, own in named.items() for note in _doubts(own)], lambda pair: pair[1]
    )
    ordered = sorted(dangers.items(), key=lambda pair: (pair[0].kind in _MILD, pair[0].kind not in _GRAVE))
    doubts = [_doubt([label for label, _ in own], note) for note, own in ordered]
    done = Note("end_runs", done=sum(map(states.count, ENDED)), runs=len(states), seconds=seconds)
    notes = [*_few(verdicts, _MOST), *_few(doubts, _MOST_DOUBTS), *([Note("end_small")] if small else [])]
    section = Section(str(done), {}, [], [], notes=tuple(notes))
    failed = {row["key"]: row["sweep"] for row in wanted if row["state"] == Status.FAILED}
    again = Note("end_failed", runs=len(failed), sweeps=sorted({*failed.values()}))
    places = _places(store.root, sorted(sweeps), page)
    own = [Note("end_own")] if small else []
    return Report("end", "", [section], [*([again] if failed else []), *places, *own])


def _verdict(answer: Answer) -> dict[str, Any]:
    """The verdict on a workload, with the values between which all are."""
    metric = answer.metric
    values = [value for place in answer.places if (value := place.value.number()) is not None]
    ends = [f"{end:.{metric.digits}f}" for end in (min(values), max(values))] if len(values) > 1 else []
    if ends and metric.unit:
        ends[-1] += f" {metric.unit}"
    return {"verdict": answer.verdict, "ends": ends}


def _doubts(answer: Answer) -> list[Note]:
    """What could change the verdict, or mislead: all dangers but those about the time of a step."""
    of_time = {f"danger_{note.kind}" for place in answer.places for note in place.ms_per_step.notes}
    return [note for note in answer.dangers if note.kind not in of_time]


def _doubt(workloads: Sequence[str], danger: Note) -> Note:
    """A line on what could mislead on some workloads; a few are named."""
    is_few = len(workloads) <= _MOST_NAMES
    return Note(
        "end_danger",
        workloads=workloads if is_few else [],
        many=0 if is_few else len(workloads),
        danger=danger,
    )


def _few(notes: Sequence[Note], most: int) -> list[Note]:
    """At most so many of the notes; the others are counted."""
    more = len(notes) - most
    return [*notes[:most], *([Note("end_more", more=more)] if more > 0 else [])]


def _labels(found: Sequence[Answer]) -> list[str]:
    """What tells the workloads apart, in as few words as will do."""
    most = max((len(own.workload) for own in found), default=0)
    labels = [[" ".join(own.workload[: parts + 1]) for own in found] for parts in range(most)]
    return next((own for own in labels if len({*own}) == len(found)), labels[-1] if labels else [])


def _places(root: Path, sweeps: Sequence[str], page: Path | None) -> list[Note]:
    """Where to read on: commands, or the files if they are there already."""
    named = [] if {*sweeps} >= {*sweep_names(root)} else list(sweeps)
    places = {
        "table": write_command("table", *named),
        "report": write_command("report", *named) if page is None else str(page),
    }
    notes = [Note("end_place", name=name, place=place) for name, place in places.items()]
    if page is not None:
        folder = of_selection(page.parent / "figures", root, sweeps)
        drawn = [name for name in FIGURES if any(folder.glob(f"{name}*{PNG}"))]
        notes.append(Note("end_figures", folder=folder, names=drawn))
    return notes
