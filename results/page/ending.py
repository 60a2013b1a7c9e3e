"""The end of `htbench sweep run` and `htbench demo`: who is better on each workload, and where to read on."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from htbench.harness.show.commands import write_command
from htbench.harness.show.emit import say
from htbench.harness.show.note import Note
from htbench.harness.show.report import Report, Section
from htbench.harness.show.status import ENDED, Status
from htbench.harness.store import Store
from htbench.harness.store.points import DROPPED, sweep_names
from htbench.results.figures.files import PNG, choose_folder
from htbench.results.figures.registry import FIGURES
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
    rows = [row for row in frame if row["sweep"] in sweeps and row["stage"] != DROPPED]
    states = list({row["key"] or row["slot"]: row["state"] for row in rows}.values())
    workload_answers = answers(frame, store)
    by_label = dict(zip(_label_workloads(workload_answers), workload_answers, strict=True))
    verdicts = [Note("end_verdict", workload=name, **_read_verdict(by_label[name])) for name in by_label]
    labels: dict[Note, list[str]] = {}  # of the workloads that something could mislead on
    for label, answer in by_label.items():
        # The time of a step changes no verdict.
        of_time = {f"danger_{note.kind}" for place in answer.places for note in place.ms_per_step.notes}
        for note in answer.dangers:
            if note.kind not in of_time:
                labels.setdefault(note, []).append(label)
    doubts = []
    for note in sorted(labels, key=lambda note: (note.kind in _MILD, note.kind not in _GRAVE)):
        is_few = len(labels[note]) <= _MOST_NAMES
        count = 0 if is_few else len(labels[note])
        doubts.append(Note("end_danger", workloads=labels[note] if is_few else [], many=count, danger=note))
    run_counts = Note("end_runs", done=sum(map(states.count, ENDED)), runs=len(states), seconds=seconds)
    notes = [*_limit(verdicts, _MOST), *_limit(doubts, _MOST_DOUBTS), *([Note("end_small")] if small else [])]
    section = Section(str(run_counts), {}, [], [], notes=tuple(notes))
    failed = {row["key"]: row["sweep"] for row in rows if row["state"] == Status.FAILED}
    footer = [Note("end_failed", runs=len(failed), sweeps=sorted({*failed.values()}))] if failed else []
    footer += [*_list_places(store.root, sorted(sweeps), page), *([Note("end_own")] if small else [])]
    return Report("end", "", [section], footer)


def _read_verdict(answer: Answer) -> dict[str, Any]:
    """The verdict on a workload, with the values between which all are."""
    metric = answer.metric
    values = [value for place in answer.places if (value := place.value.number()) is not None]
    ends = [f"{end:.{metric.digits}f}" for end in (min(values), max(values))] if len(values) > 1 else []
    if ends and metric.unit:
        ends[-1] += f" {metric.unit}"
    return {"verdict": answer.verdict, "ends": ends}


def _limit(notes: Sequence[Note], most: int) -> list[Note]:
    """At most so many of the notes; the others are counted."""
    more = len(notes) - most
    return [*notes[:most], *([Note("end_more", more=more)] if more > 0 else [])]


def _label_workloads(workload_answers: Sequence[Answer]) -> list[str]:
    """What tells the workloads apart, in as few words as will do."""
    names = [answer.workload for answer in workload_answers]
    labels: list[str] = []
    for most in range(1, max(map(len, names), default=0) + 1):
        labels = [" ".join(name[:most]) for name in names]
        if len({*labels}) == len(labels):
            break
    return labels


def _list_places(root: Path, sweeps: Sequence[str], page: Path | None) -> list[Note]:
    """Where to read on: commands, or the files if they are there already."""
    words = [] if {*sweeps} >= {*sweep_names(root)} else list(sweeps)
    places = {
        "table": write_command("table", *words),
        "report": write_command("report", *words) if page is None else str(page),
    }
    notes = [Note("end_place", name=name, place=place) for name, place in places.items()]
    if page is not None:
        folder = choose_folder(page.parent / "figures", root, sweeps)
        drawn = [name for name in FIGURES if any(folder.glob(f"{name}*{PNG}"))]
        notes.append(Note("end_figures", folder=folder, names=drawn))
    return notes
