"""The frames of spectra of any runs: layers, means of alpha, singular values of updates."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from htbench.harness.show.note import Note
from htbench.harness.store import Store
from htbench.results.compare.select import OPTIMIZER, choose
from htbench.results.figures import kinds
from htbench.results.figures.kinds import About, Panel, Row, ranged, tidy
from htbench.results.figures.of_runs import about, workloads
from htbench.results.figures.style import display_name
from htbench.results.frames.rows import Frame, Rows
from htbench.results.frames.spectra import Spectra, is_sound, mean_alpha, of_runs, sound_layers

Measured = Mapping[str, Sequence[Spectra]]  # by optimizer, on one workload
Shape = tuple[int, int]
NORMS = {"sigma_max": "spectral norm", "fro": "Frobenius norm"}
UPDATE = "singular value of the update"
ALL_ONES = Row(UPDATE, "all ones", "", 1.0, role=kinds.LEVEL)

_MOST_NAMES = 24  # layers; more are numbered, since their names would not fit
_MOST_POINTS = 128  # of a sorted spectrum; more are not visible


# --- the winners of any sweeps ---


def alpha_layers(frame: Frame, store: Store) -> list[Panel]:
    """Alpha of each layer."""
    return [layers(about(part), found, "alpha") for part, found in _weighed(frame, store)]


def norms(frame: Frame, store: Store) -> list[Panel]:
    """Spectral and Frobenius norm of each layer."""
    return [layers(about(part), found, name) for part, found in _weighed(frame, store) for name in NORMS]


def alpha_bars(frame: Frame, store: Store) -> list[Panel]:
    """Mean alpha of each optimizer over the layers that are sound in all of its and the others' runs."""
    panels = []
    for part, found in _weighed(frame, store):
        rows, which = mean_alphas(found)
        of = replace(about(part), seeds=seeds(found)).noted(which)
        if rows:
            panels.append(Panel("alphas", of, tidy(rows), y_label="mean alpha"))
    return panels


def update_spectra(frame: Frame, store: Store) -> list[Panel]:
    """Singular values of the updates: a panel for each workload and step, of the matrices of one shape."""
    panels = []
    for part, found in _of_winners(frame, store):
        every = [one for own in found.values() for one in own]
        shape = largest_shape(every)
        of = replace(about(part), seeds=seeds(found))
        for step in steps(every):
            values = {name: matrices(own, step, shape) for name, own in found.items()}
            if not any(values.values()):
                continue
            most, runs = (max(map(len, one.values())) for one in (values, found))
            which = Note("matrices", count=most // max(1, runs), rows=shape[0], columns=shape[1])
            rows = [row for name, own in values.items() for row in ranks(name, own, found[name])]
            frame_of = tidy([*rows, ALL_ONES])
            panels.append(
                Panel("ranks", of.noted(Note("at_step", step=step), which), frame_of, y_label=UPDATE)
            )
    return panels


def _of_winners(frame: Frame, store: Store) -> Iterator[tuple[Rows, Measured]]:
    for part in workloads(frame):
        choices = choose(part, OPTIMIZER)
        found = {str(choice.fixed["optimizer"]): of_runs(choice.replicas, store) for choice in choices}
        if any(found.values()):
            yield part, {name: own for name, own in found.items() if own}


def _weighed(frame: Frame, store: Store) -> Iterator[tuple[Rows, Measured]]:
    for part, found in _of_winners(frame, store):
        if measured := with_weights(found):
            yield part, measured


# --- layers ---


def layers(of: About, found: Measured, column: str) -> Panel:
    """One quantity of each layer.

    Args:
        of: what is said of the panel, without the number of seeds.
        found: at least one optimizer, each with at least one run that has measured its weights.
        column: `alpha` or one of NORMS.
    """
    first, is_alpha = first_weights(found), column == "alpha"
    names = list(first)
    sound = set(sound_layers(found))
    hides = is_alpha and bool(sound)  # an alpha of few eigenvalues would stretch the axis
    labels = [f"{first[name]['block']} {first[name]['kind']}" for name in names]
    if len(names) > _MOST_NAMES or len(set(labels)) < len(labels):
        labels = [str(number) for number in range(1, len(names) + 1)]
    quantity = f"alpha ({method(found)})" if is_alpha else NORMS[column]
    rows = []
    for optimizer, own in found.items():
        for name, label in zip(names, labels, strict=True):
            weights = [one.weights.get(name) for one in own]
            every = [None if w is None or (hides and not is_sound(w)) else w[column] for w in weights]
            values = [value for value in every if value is not None]
            role = kinds.LEFT_OUT if is_alpha and name not in sound else kinds.POINT
            keys = tuple(one.key for one in own)
            row = Row(
                quantity, optimizer, label, None, n=len(values), keys=keys, optimizer=optimizer, role=role
            )
            rows.append(ranged(row, values) if values and len(values) == len(every) else row)
    for name, label in zip(names, labels, strict=True) if is_alpha else ():
        value = None if hides and name not in sound else first[name]["alpha_random"]
        rows.append(Row(quantity, "random matrix", label, value, role=kinds.RANDOM))
    of = replace(of, seeds=seeds(found))
    of = of.noted(Note("no_layer", why=_reasons(found, [])) if is_alpha and not sound else None)
    return Panel("layers", of, tidy(rows), "layer", quantity)


def mean_alphas(found: Measured, group: str = "") -> tuple[list[Row], Note]:
    """Mean alpha of each optimizer over the layers that are sound in all runs, and which layers these are.

    Args:
        found: as of `layers`.
        group: the label of the group; empty for the name of each optimizer.
    """
    sound = sound_layers(found)
    rows = []
    for name, own in found.items():
        mean = mean_alpha(own, sound)
        if mean is not None:
            x, keys = group or display_name(name), tuple(one.key for one in own)
            row = Row("mean alpha", name, x, mean.mean, mean.sd, n=mean.seeds, keys=keys, optimizer=name)
            median = replace(
                row, quantity="median of mean alpha", y=mean.median, y_sd=None, role=kinds.MEDIAN
            )
            rows += [row, median]
    layers = {"layers": len(sound), "all": len(first_weights(found)), "why": _reasons(found, sound)}
    return rows, Note("mean_over", group=group, method=method(found), **layers)


def _reasons(found: Measured, sound: Sequence[str]) -> list[str]:
    """Why layers are left out: "small_n: 2"."""
    why: dict[str, set[str]] = {}
    for name, row in (
        (name, row) for own in found.values() for one in own for name, row in one.weights.items()
    ):
        if name not in sound and not is_sound(row):
            why.setdefault(", ".join(row["flags"]) or "no alpha", set()).add(name)
    return [f"{flags}: {len(names)}" for flags, names in sorted(why.items())]


def with_weights(found: Measured) -> Measured:
    """Only the runs that have measured their weights, and the optimizers that have such runs."""
    measured = {name: [one for one in own if one.weights] for name, own in found.items()}
    return {name: own for name, own in measured.items() if own}


def first_weights(found: Measured) -> Mapping[str, dict[str, Any]]:
    """The layers of the model, in its order."""
    return next(iter(found.values()))[0].weights


def seeds(found: Measured) -> list[int]:
    """The number of seeds of each optimizer."""
    return [len(own) for own in found.values()]


def method(found: Measured) -> str:
    """The estimator of alpha."""
    methods = {row["method"] for own in found.values() for one in own for row in one.weights.values()}
    return ", ".join(sorted(methods))


# --- updates ---


def largest_shape(runs: Iterable[Spectra]) -> Shape:
    """The shape that has the most singular values in all matrices together."""
    shapes: Counter[Shape] = Counter()
    for row in (row for one in runs for rows in one.updates.values() for row in rows.values()):
        shapes[row["rows"], row["cols"]] += len(row["update"])
    return shapes.most_common(1)[0][0] if shapes else (0, 0)


def steps(runs: Iterable[Spectra]) -> list[int]:
    """The steps at which runs have recorded their updates."""
    return sorted({step for one in runs for step in one.updates})


def matrices(runs: Iterable[Spectra], step: int, shape: Shape) -> list[list[float]]:
    """The singular values of all matrices of one shape at one step, descending."""
    rows = [row for one in runs for row in one.updates.get(step, {}).values()]
    chosen = [row["update"] for row in rows if (row["rows"], row["cols"]) == shape]
    return [update for update in chosen if update and None not in update]


def ranks(
    optimizer: str, updates: Sequence[Sequence[float]], runs: Sequence[Spectra], name: str = ""
) -> list[Row]:
    """Mean and range at ranks from 1 on, equally spaced if they are many, over matrices and runs.

    `n` is the number of runs; `name` is that of the series, if it is not the optimizer's.
    """
    length = min(map(len, updates), default=0)
    last = min(length, _MOST_POINTS) - 1
    places = sorted({1 + round(i * (length - 1) / max(1, last)) for i in range(last + 1)})
    row = Row(UPDATE, name or optimizer, "", None, n=len(runs), keys=tuple(one.key for one in runs))
    row = replace(row, optimizer=optimizer)
    return [ranged(replace(row, x=float(rank)), [one[rank - 1] for one in updates]) for rank in places]
