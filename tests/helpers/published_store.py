"""A store as if the plans of `sweeps/paper` had been run and every run had the published result.

Grid points that the paper prints have their printed value; all others are worse. Nothing is trained.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from htbench.harness.paper import experiments, reported
from htbench.harness.paper.reported import Place, Reported
from htbench.harness.store import Store, layout
from htbench.harness.store.points import sweep_folder, write_points
from htbench.harness.system.environment import HOME
from htbench.sweeps.plan.planned import Planned, search_points
from htbench.sweeps.spec.sweep_file import load
from tests.helpers.records import record_of, write_run

SWEEPS = HOME / "sweeps" / "paper"
TIMES = {"rtxpro6000": "NVIDIA RTX PRO 6000", "": "NVIDIA RTX A6000"}  # by the word of a rerun
STEPS = 10_000  # of every run: how many does not matter here


def fill(root: Path) -> Store:
    """Write the plans, and a record and the end of a curve for each of their runs."""
    store = Store(root)
    layout.begin(root)
    lines: dict[Place, list[Reported]] = {}
    for line in reported.everything():
        lines.setdefault(line.place, []).append(line)
    for path in sorted(SWEEPS.glob("*.yaml")):
        planned = search_points(load(path))
        name = planned[0].point.sweep
        sweep_folder(root, name).mkdir(parents=True)
        write_points(root, name, [one.point for one in planned])
        for place, own in _by_place(name, planned).items():
            for one, quality in zip(own, _qualities(lines.get(place, []), own), strict=True):
                write(store, one, lines.get(place, []), quality)
    return store


def _by_place(sweep: str, planned: Iterable[Planned]) -> dict[Place, list[Planned]]:
    """The runs of each place of a sweep, found by their configs."""
    places = [place for place, name in experiments.places("paper").items() if f"paper-{name}" == sweep]
    found: dict[Place, list[Planned]] = {place: [] for place in places}
    for one in planned:
        (place,) = (place for place in places if _is_at(one, place))
        found[place].append(one)
    return found


def _is_at(one: Planned, place: Place) -> bool:
    config = one.config
    return (
        (config.task, config.model, config.replica) == (place.dataset, place.model, place.replica)
        and config.optimizer.name == place.optimizer
        and all(config.optimizer.hyper[name] == value for name, value in place.hyper.items())
    )


def _qualities(lines: Sequence[Reported], own: Sequence[Planned]) -> list[float]:
    """Perplexity or accuracy in % of each run of a place.

    A number printed without a learning rate is that of the best run: the first one, if no other says which.
    """
    printed = [line for line in lines if line.metric in ("perplexity", "accuracy")]
    if not printed:
        return [50.0] * len(own)  # of a figure
    by_rate = {line.lr: line.value for line in printed if line.lr is not None}
    rates = [one.config.optimizer.lr for one in own]
    best = by_rate or {rates[0]: printed[0].value}
    worse = 1.1 if printed[0].metric == "perplexity" else 0.9
    return [best.get(rate, printed[0].value * worse) for rate in rates]


def write(store: Store, one: Planned, lines: Sequence[Reported], quality: float) -> None:
    """Write the record of a run, and the evaluations of its curve."""
    values = {line.metric: line.value for line in lines}
    seconds = values.get("hours", 1.0) * 3600
    metrics = _metrics(one, quality)
    record = record_of(
        one,
        metrics=metrics,
        steps=STEPS,
        useful_seconds=seconds,
        seconds_per_step=values.get("seconds_per_step", seconds / STEPS),
        environment={
            "code": "0123456789ab",
            "torch": "2.9.0",
            "gpu": TIMES.get(one.config.replica, TIMES[""]),
        },
        timing={"mean": seconds / STEPS, "steps": STEPS, "warmup": 10},
    )
    write_run(store.root, record, [*_on_the_way(values, seconds), {"step": STEPS, **metrics}])


def _metrics(one: Planned, quality: float) -> dict[str, float | None]:
    """Of both splits, which are one in the paper's protocol. On C4 the loss of the release has the print."""
    if one.config.task.startswith(("cifar", "imagenet")):
        own = {"loss": 1.0, "accuracy": quality / 100, "samples": 10_000}
    else:
        loss = math.log(quality) * (1.03 if one.config.task == "c4" else 1)
        own = {"loss": loss, "loss_biased": math.log(quality), "perplexity": math.exp(loss)}
    return {f"{split}_{name}": value for split in ("val", "test") for name, value in own.items()}


def _on_the_way(values: Mapping[str, float], seconds: float) -> list[dict[str, float]]:
    """The evaluation at which a run has Muon's perplexity, where the paper prints when that was."""
    found = []
    for name, hours in values.items():
        if name.startswith("hours_to_perplexity_") and hours * 3600 < seconds:
            loss = math.log(float(name.rpartition("_")[2]))
            found.append({"step": round(hours * 3600 / seconds * STEPS), "val_loss_biased": loss})
    return found
