"""Runs that another trainer made: what is reported, in which direction, and their records. Torch-free.

The config of such a record says `imported: NAME`, and only what the file said: no default of ours is written
in. Its key covers this config, so that it can never be the key of a run of ours.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.config import Value
from harness.errors import UsageError
from harness.exchange import ours
from harness.exchange.gather import Gathered
from harness.exchange.words import capital, shown
from harness.show.note import Note
from harness.show.status import Status
from harness.store.points import SEED_FIELDS
from harness.store.record import IMPORTED, RUN, RunRecord, key_of_imported
from harness.tasks import OF_OTHERS

_TELLING = 10  # steps; shorter curves may agree by chance
_ASKS = {
    ours.RESULT: "Nothing says what {run} is a result of: add a column result or optimizer",
    ours.TASK: "Nothing says on which task {run} was trained: add a column task",
    ours.MODEL: "Nothing says which model {run} trained: add a column model",
}


@dataclass(frozen=True)
class ForeignRun:
    """One run as a file tells it.

    Attributes:
        source: the name under which the file was imported; also that of the sweep.
        facts: what the file says of it, by our names: RESULT (what is compared, a name or a result), TASK and
            MODEL in any case; RUN (their word for it, unique within these), SEED, HARDWARE (the GPU or
            machine), SECONDS, and settings by dotted names, such as "optimizer.lr", if it tells them. Without
            RUN, seed and settings tell the runs apart.
        metric: what is reported, without its split: "loss", "accuracy" (a share in [0, 1]).
        higher_is_better: the direction of the metric.
        curve: rows of a step and what was measured after it: {"step": 125, "loss": 4.7, "val_loss": 4.66},
            `loss` being that of the training. A value that is not finite is None.
        remarks: what a reader should know, such as doubled steps of its log.
    """

    source: str
    facts: Mapping[str, Value]
    metric: str
    higher_is_better: bool
    curve: Sequence[Mapping[str, float | None]]
    remarks: Sequence[Note] = ()

    @property
    def config(self) -> dict[str, Any]:
        """The nested config: what the file says, with empty words for what we would know of a run of ours."""
        facts: dict[str, Any] = dict(self.facts)
        config: dict[str, Any] = {
            IMPORTED: self.source,
            RUN: facts.pop(ours.RUN, ""),
            "task": facts.pop(ours.TASK),
            "model": facts.pop(ours.MODEL),
            "optimizer": {"name": facts.pop(ours.RESULT)},
            **dict.fromkeys(SEED_FIELDS, facts.pop(ours.SEED, None)),
            "replica": "",
            "data_fingerprint": "",
        }
        for name, value in sorted(facts.items()):
            if name not in (ours.HARDWARE, ours.SECONDS):
                group, _, field_name = name.rpartition(".")
                place = config.setdefault(group, {}) if group else config
                place[field_name] = value
        return config

    def record(self) -> RunRecord:
        """The record: completed, or diverged if the metric is not finite after the last step.

        `curve` is sorted by step and has a value or None of `val_<metric>` in its last row.
        """
        last, config, reported = self.curve[-1], self.config, f"val_{self.metric}"
        metrics = {name: value for name, value in last.items() if name.startswith(ours.HELD_OUT)}
        steps, finite = int(last["step"] or 0), metrics.get(reported) is not None
        hardware: Any = self.facts.get(ours.HARDWARE)
        seconds: Any = self.facts.get(ours.SECONDS)
        task = {"kind": OF_OTHERS, "metric": self.metric, "higher_is_better": self.higher_is_better}
        return RunRecord(
            key=key_of_imported(config),
            config=config,
            status=Status.COMPLETED if finite else Status.DIVERGED,
            metrics=metrics,
            steps=steps,
            useful_seconds=steps * (seconds or 0.0),
            seconds_per_step=seconds,
            peak_memory=0,
            cost={},
            attempts=1,
            environment={"task": task, **({"gpu": hardware} if hardware else {})},
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
        higher_is_better = ours.direction(metric)
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
        last, facts, remarks = max(ends), dict(run.facts), list(_remarks(run, max(ends)))
        if run.stretch > 1:
            facts[ours.RUN] = f"{facts.get(ours.RUN, '')}#{run.stretch}"
        reported = metric.removeprefix("val_")
        made.append(
            ForeignRun(source, facts, reported, higher_is_better, list(_curve(run, last)), tuple(remarks))
        )
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
        there = f"has {', '.join(held_out)}" if held_out else "has none"
        raise UsageError(
            f"--metric must be a metric of the validation split, and the file {there}: not '{asked}'."
        )
    if not held_out:
        raise UsageError(
            f"The file has {', '.join(names)}, but nothing of a validation split, by which runs are chosen; "
            "map it: `--map val_loss=COLUMN`."
        )
    known = [name for name in held_out if ours.direction(name) is not None]
    for candidates in ([asked] if asked else [], held_out, known):
        if len(candidates) == 1:
            return candidates[0]
    raise UsageError(f"The file has {', '.join(held_out)}; name the one that is reported by --metric.")


def _check_values(runs: Sequence[Gathered]) -> None:
    """Refuse shares beyond [0, 1], and a setting that is a number in one run and a word in another."""
    kinds: dict[str, tuple[bool, Gathered]] = {}
    for run in runs:
        for step, row in run.curve.items():
            for name, value in row.items():
                if value is not None and ours.is_share(name) and not 0 <= value <= 1:
                    hint = f"; a percentage needs `--map {name}={name}/100`" if 1 < value <= 100 else ""
                    raise UsageError(
                        f"{capital(run.name)} has {name} {value:g} at step {step}, but an "
                        f"accuracy is a share in [0, 1]{hint}."
                    )
        for name, fact in run.facts.items():
            is_word, before = kinds.setdefault(name, (isinstance(fact, str), run))
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
    if run.facts.get(ours.STEPS, last) != last:
        yield Note("import_short", step=last, planned=run.facts[ours.STEPS])


def _curve(run: Gathered, last: int) -> Iterator[dict[str, float | None]]:
    """The rows up to step `last`. A curve calls the training loss `loss`."""
    for step, row in sorted(run.curve.items()):
        if step <= last:
            values = {"loss" if name == ours.TRAIN_LOSS else name: x for name, x in sorted(row.items())}
            yield {"step": step, **values}
