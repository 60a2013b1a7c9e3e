"""Gathered runs to `ForeignRun`s: what is reported, in which direction, and what the files leave open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.errors import UsageError
from harness.exchange import metrics
from harness.exchange.foreign_record import ForeignRun
from harness.exchange.gather import Gathered
from harness.exchange.mapping import HARDWARE, MODEL, RESULT, RUN, SECONDS, SEED, STEPS, TASK
from harness.exchange.words import capital, shown

_FIELDS = (RESULT, RUN, SEED, TASK, MODEL, HARDWARE, SECONDS)
_TELLING = 10  # steps; shorter curves may agree by chance
_ASKS = {
    RESULT: "Nothing says what {run} is a result of: add a column result or optimizer",
    TASK: "Nothing says on which task {run} was trained: add a column task",
    MODEL: "Nothing says which model {run} trained: add a column model",
}


def assemble(
    source: str, runs: Sequence[Gathered], asked: str = "", higher_is_better: bool | None = None
) -> tuple[list[ForeignRun], list[str]]:
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
        higher_is_better = metrics.direction(metric)
    if higher_is_better is None:
        raise UsageError(f"Is a {metric} good when it is high? Add --higher-is-better or --lower-is-better.")
    _check_shares(runs)
    _check_kinds(runs)
    has = [any(metric in row for row in run.curve.values()) for run in runs]
    kept, lacking = ([run for run, it in zip(runs, has, strict=True) if it is one] for one in (True, False))
    made = [_made(source, run, metric.removeprefix("val_"), higher_is_better) for run in kept]
    remarks = [_of_some(f"left out, as there is no {metric}", lacking, runs)] if lacking else []
    return made, remarks + _remarks(kept, made, metric)


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
    found = sorted({name for run in runs for row in run.curve.values() for name in row})
    held_out = [name for name in found if name.startswith("val_")]
    if asked and asked not in held_out:
        told = f"has {', '.join(held_out)}" if held_out else "has none"
        raise UsageError(
            f"--metric must be a metric of the validation split, and the file {told}: not '{asked}'."
        )
    if not held_out:
        raise UsageError(
            f"The file has {', '.join(found)}, but nothing of a validation split, by which runs are chosen; "
            "map it: `--map val_loss=COLUMN`."
        )
    known = [name for name in held_out if metrics.is_known(name)]
    for some in ([asked] if asked else [], held_out, known):
        if len(some) == 1:
            return some[0]
    raise UsageError(f"The file has {', '.join(held_out)}; name the one that is reported by --metric.")


def _check_shares(runs: Sequence[Gathered]) -> None:
    for run in runs:
        for step, row in run.curve.items():
            for name, value in row.items():
                if value is not None and metrics.is_share(name) and not 0 <= value <= 1:
                    hint = f"; a percentage needs `--map {name}={name}/100`" if 1 < value <= 100 else ""
                    raise UsageError(
                        f"{capital(run.name)} has {name} {value:g} at step {step}, but an "
                        f"accuracy is a share in [0, 1]{hint}."
                    )


def _check_kinds(runs: Sequence[Gathered]) -> None:
    """Refuse a setting that is a number in one run and a word in another: no table could sort it."""
    told: dict[str, tuple[bool, Gathered]] = {}
    for run in runs:
        for name, value in run.facts.items():
            is_word, before = told.setdefault(name, (isinstance(value, str), run))
            if is_word != isinstance(value, str):
                raise UsageError(
                    f"{name} is {shown(str(before.facts[name]))} in {before.name} and {shown(str(value))} in "
                    f"{run.name}; give numbers or words, or leave it out with --drop."
                )


def _made(source: str, run: Gathered, metric: str, higher_is_better: bool) -> ForeignRun:
    facts = run.facts
    last = max(step for step, row in run.curve.items() if f"val_{metric}" in row)
    rows = [{"step": step, **_renamed(row)} for step, row in sorted(run.curve.items()) if step <= last]
    return ForeignRun(
        source=source,
        run=facts.get(RUN, "") + (f"#{run.stretch}" if run.stretch > 1 else ""),
        task=facts[TASK],
        model=facts[MODEL],
        optimizer=facts[RESULT],
        metric=metric,
        higher_is_better=higher_is_better,
        curve=rows,
        seed=facts.get(SEED),
        settings={name: value for name, value in facts.items() if name not in _FIELDS},
        hardware=facts.get(HARDWARE, ""),
        seconds_per_step=facts.get(SECONDS),
        note="; ".join(_notes(run, last)),
    )


def _renamed(row: Mapping[str, float | None]) -> dict[str, float | None]:
    """A curve calls the training loss `loss`."""
    return {"loss" if name == metrics.TRAIN_LOSS else name: value for name, value in sorted(row.items())}


# --- what a reader should know ---


def _notes(run: Gathered, last: int) -> list[str]:
    found = list(run.notes)
    if run.stretch > 1:
        found.append(f"number {run.stretch} of the runs of one log")
    if run.doubled:
        told = f"{len(run.doubled)} steps are told more than once, {len(run.differing)} with other values"
        found.append(f"{told}: the last counts")
    if max(run.curve) > last:
        found.append(f"the curve after its last evaluation, up to step {max(run.curve)}, is left out")
    planned = run.facts.get(STEPS)
    if planned is not None and planned != last:
        found.append(f"its curve ends at step {last} of {planned}")
    return found


def _remarks(runs: Sequence[Gathered], made: Sequence[ForeignRun], metric: str) -> list[str]:
    """The same for people: how many runs have such a note, and the first of them."""
    pairs = list(zip(runs, made, strict=True))
    doubled = [run for run in runs if run.doubled]
    steps = sum(len(run.doubled) for run in doubled)
    differing = sum(len(run.differing) for run in doubled)
    told = f"{steps} steps are told more than once, {differing} with other values, and the last counts"
    cut = [run for run, one in pairs if max(run.curve) > _end(one)]
    short = [run for run, one in pairs if run.facts.get(STEPS, _end(one)) != _end(one)]
    found = {
        told: doubled,
        f"what comes after the last {metric} is left out": cut,
        "the curve does not end at the step that was planned": short,
        "a log has several runs, one after the other; these are not its first": [
            run for run in runs if run.stretch > 1
        ],
        "the curve is that of another run, value by value": _copies(runs),
    }
    return [_of_some(what, some, runs) for what, some in found.items() if some]


def _copies(runs: Sequence[Gathered]) -> list[Gathered]:
    """The runs whose curve, of ten steps or more, is that of an earlier run: it would count twice."""
    seen: set[str] = set()
    found = []
    for run in runs:
        if len(run.curve) >= _TELLING:
            curve = repr(sorted((step, sorted(row.items())) for step, row in run.curve.items()))
            found += [run] if curve in seen else []
            seen.add(curve)
    return found


def _of_some(what: str, some: Sequence[Gathered], runs: Sequence[Gathered]) -> str:
    return f"{what}: {len(some)} of {len(runs)} runs, first {some[0].name}"


def _end(run: ForeignRun) -> int:
    return int(run.curve[-1]["step"] or 0)
