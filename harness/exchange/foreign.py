"""Runs that another trainer made: what is reported, in which direction, and their records. Torch-free.

The config of such a record says `imported: NAME`, and only what the file said: no default of ours is written
in. Its key covers this config, so that it can never be the key of a run of ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.config import Value
from harness.errors import UsageError
from harness.exchange.columns import (
    HARDWARE,
    HELD_OUT,
    MODEL,
    RESULT,
    RUN,
    SECONDS,
    SEED,
    STEPS,
    TASK,
    TRAIN_LOSS,
    direction,
    is_share,
)
from harness.exchange.gather import Gathered
from harness.exchange.words import capital, shown
from harness.show.note import Note
from harness.show.status import Status
from harness.store.record import IMPORTED, RunRecord, key_of_imported
from harness.tasks import OF_OTHERS

_TELLING = 10  # steps; shorter curves may agree by chance
_ASKS = {
    RESULT: "Nothing says what {run} is a result of: add a column result or optimizer",
    TASK: "Nothing says on which task {run} was trained: add a column task",
    MODEL: "Nothing says which model {run} trained: add a column model",
}


@dataclass(frozen=True)
class ForeignRun:
    """One run as a file tells it.

    Attributes:
        source: the name under which the file was imported; also that of the sweep.
        run: their word for the run, unique within task, model and optimizer; empty if they have none, and
            then seed and settings tell the runs apart.
        task, model, optimizer: words; `optimizer` is what is compared, a name or a result.
        metric: what is reported, without its split: "loss", "accuracy" (a share in [0, 1]).
        higher_is_better: the direction of the metric.
        curve: rows of a step and what was measured after it: {"step": 125, "loss": 4.7, "val_loss": 4.66},
            `loss` being that of the training. A value that is not finite is None.
        seed: None if the file does not tell it.
        settings: what else it says of the run, by dotted names: "optimizer.lr", "batch_size" ...
        hardware: the GPU or machine; empty if not told.
        seconds_per_step: None if not told.
        remarks: what a reader should know, such as doubled steps of its log.
    """

    source: str
    run: str
    task: str
    model: str
    optimizer: str
    metric: str
    higher_is_better: bool
    curve: Sequence[Mapping[str, float | None]]
    seed: int | None = None
    settings: Mapping[str, Value] = field(default_factory=dict)
    hardware: str = ""
    seconds_per_step: float | None = None
    remarks: Sequence[Note] = ()

    @property
    def config(self) -> dict[str, Any]:
        """The nested config: what the file says, with empty words for what we would know of a run of ours."""
        config: dict[str, Any] = {
            IMPORTED: self.source,
            RUN: self.run,
            "task": self.task,
            "model": self.model,
            "optimizer": {"name": self.optimizer},
            "seed": self.seed,
            "data_seed": self.seed,
            "replica": "",
            "data_fingerprint": "",
        }
        for name, value in sorted(self.settings.items()):
            group, _, field_name = name.rpartition(".")
            place = config.setdefault(group, {}) if group else config
            place[field_name] = value
        return config

    def record(self) -> RunRecord:
        """The record: completed, or diverged if the metric is not finite after the last step.

        `curve` is sorted by step and has a value or None of `val_<metric>` in its last row.
        """
        last, config, reported = self.curve[-1], self.config, f"val_{self.metric}"
        metrics = {name: value for name, value in last.items() if name.startswith(HELD_OUT)}
        steps, finite = int(last["step"] or 0), metrics.get(reported) is not None
        task = {"kind": OF_OTHERS, "metric": self.metric, "higher_is_better": self.higher_is_better}
        return RunRecord(
            key=key_of_imported(config),
            config=config,
            status=Status.COMPLETED if finite else Status.DIVERGED,
            metrics=metrics,
            steps=steps,
            useful_seconds=steps * (self.seconds_per_step or 0.0),
            seconds_per_step=self.seconds_per_step,
            peak_memory=0,
            cost={},
            attempts=1,
            environment={"task": task, **({"gpu": self.hardware} if self.hardware else {})},
            divergence={} if finite else {"kind": "metric_not_finite", "metric": reported},
            remarks=[{"kind": note.kind, **note.fields} for note in self.remarks],
        )


def assemble(
    source: str, runs: Sequence[Gathered], asked: str = "", higher_is_better: bool | None = None
) -> tuple[list[ForeignRun], list[Note]]:
    """The runs as a store takes them.

    Args:
        source: the name of the import.
        runs: as `gather` and `join` make them.
        asked: the metric that is reported, as "val_loss"; empty: the only one.
        higher_is_better: its direction; None: from the table of known metrics.

    Returns:
        the runs, and remarks for people.

    Raises:
        UsageError: something is not told, and one sentence asks for it.
    """
    _check_told(runs)
    metric = _metric(runs, asked)
    if higher_is_better is None:
        higher_is_better = direction(metric)
    if higher_is_better is None:
        raise UsageError(f"Is a {metric} good when it is high? Add --higher-is-better or --lower-is-better.")
    _check_values(runs)
    made, lacking, curves = [], [], set[str]()
    alike: dict[str, list[tuple[Gathered, Note]]] = {}
    for run in runs:
        ends = [step for step, row in run.curve.items() if metric in row]
        if not ends:
            lacking.append(run)
            continue
        remarks = list(_remarks(run, max(ends)))
        made.append(_made(source, run, metric, higher_is_better, max(ends), remarks))
        curve = repr(sorted((step, sorted(row.items())) for step, row in run.curve.items()))
        if len(run.curve) >= _TELLING and curve in curves:  # it would count twice
            remarks = [*remarks, Note("import_copy")]
        curves.add(curve)
        for note in remarks:
            alike.setdefault(note.kind, []).append((run, note))
    notes = (
        [Note("import_no_metric", metric=metric, runs=len(lacking), first=lacking[0].name)] if lacking else []
    )
    for (first, note), *others in alike.values():
        notes.append(Note("import_remark", run=first.name, remark=str(note), others=len(others)))
    return made, notes


def _check_told(runs: Sequence[Gathered]) -> None:
    if not runs:
        raise UsageError(
            "The files have no measured value: name a column val_loss or val_accuracy, or map one to it: "
            "`--map val_loss=COLUMN`."
        )
    for name, ask in _ASKS.items():
        for run in runs:
            if name not in run.facts:
                flags = f"`--map {name}=COLUMN` or `--set {name}=WORD`"
                raise UsageError(f"{ask.format(run=run.name)}, {flags}.")


def _metric(runs: Sequence[Gathered], asked: str) -> str:
    names = sorted({name for run in runs for row in run.curve.values() for name in row})
    held_out = [name for name in names if name.startswith("val_")]
    if asked and asked not in held_out:
        told = f"has {', '.join(held_out)}" if held_out else "has none"
        raise UsageError(
            f"--metric must be a metric of the validation split, and the file {told}: not '{asked}'."
        )
    if not held_out:
        raise UsageError(
            f"The file has {', '.join(names)}, but nothing of a validation split, by which runs are chosen; "
            "map it: `--map val_loss=COLUMN`."
        )
    known = [name for name in held_out if direction(name) is not None]
    for some in ([asked] if asked else [], held_out, known):
        if len(some) == 1:
            return some[0]
    raise UsageError(f"The file has {', '.join(held_out)}; name the one that is reported by --metric.")


def _check_values(runs: Sequence[Gathered]) -> None:
    """Refuse shares beyond [0, 1], and a setting that is a number in one run and a word in another."""
    told: dict[str, tuple[bool, Gathered]] = {}
    for run in runs:
        for step, row in run.curve.items():
            for name, value in row.items():
                if value is not None and is_share(name) and not 0 <= value <= 1:
                    hint = f"; a percentage needs `--map {name}={name}/100`" if 1 < value <= 100 else ""
                    raise UsageError(
                        f"{capital(run.name)} has {name} {value:g} at step {step}, but an "
                        f"accuracy is a share in [0, 1]{hint}."
                    )
        for name, fact in run.facts.items():
            is_word, before = told.setdefault(name, (isinstance(fact, str), run))
            if is_word != isinstance(fact, str):  # no table could sort it
                raise UsageError(
                    f"{name} is {shown(str(before.facts[name]))} in {before.name} and {shown(str(fact))} in "
                    f"{run.name}; give numbers or words, or leave it out with --drop."
                )


def _remarks(run: Gathered, last: int) -> Iterator[Note]:
    """What a reader should know of a run whose last evaluation is after step `last`."""
    yield from run.remarks
    if run.stretch > 1:
        yield Note("import_stretch", number=run.stretch)
    if run.doubled:
        yield Note("import_doubled", steps=len(run.doubled), differing=len(run.differing))
    if max(run.curve) > last:
        yield Note("import_cut", step=max(run.curve))
    if run.facts.get(STEPS, last) != last:
        yield Note("import_short", step=last, planned=run.facts[STEPS])


def _made(
    source: str, run: Gathered, metric: str, higher_is_better: bool, last: int, remarks: Sequence[Note]
) -> ForeignRun:
    facts: dict[str, Any] = dict(run.facts)
    word, seed = facts.pop(RUN, ""), facts.pop(SEED, None)
    curve: list[dict[str, float | None]] = []
    for step, row in sorted(run.curve.items()):
        if step <= last:  # a curve calls the training loss `loss`
            values = {"loss" if name == TRAIN_LOSS else name: value for name, value in sorted(row.items())}
            curve.append({"step": step, **values})
    return ForeignRun(
        source=source,
        run=word + (f"#{run.stretch}" if run.stretch > 1 else ""),
        task=facts.pop(TASK),
        model=facts.pop(MODEL),
        optimizer=facts.pop(RESULT),
        metric=metric.removeprefix("val_"),
        higher_is_better=higher_is_better,
        curve=curve,
        seed=seed,
        hardware=facts.pop(HARDWARE, ""),
        seconds_per_step=facts.pop(SECONDS, None),
        settings=facts,
        remarks=remarks,
    )
