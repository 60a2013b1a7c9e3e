"""The frames of spectra of any runs: layers, means of alpha, singular values of updates."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from htbench.harness.show.note import Note
from htbench.results.compare.workload import Workload
from htbench.results.figures import kinds
from htbench.results.figures.kinds import About, Panel, Row, add_range, tidy
from htbench.results.figures.run_figures import describe_workload, plot_values
from htbench.results.figures.style import display_name
from htbench.results.frames.spectra import Spectra, is_sound, mean_alpha, read_spectra, sound_layers

Measured = Mapping[str, Sequence[Spectra]]  # by optimizer, on one workload
Shape = tuple[int, int]
NORMS = {"sigma_max": "spectral norm", "fro": "Frobenius norm"}
UPDATE = "singular value of the update"
ALL_ONES = Row(UPDATE, "", "", 1.0, series="all ones", role=kinds.LEVEL)

_MOST_NAMES = 24  # layers; more are numbered, since their names would not fit
_MOST_POINTS = 128  # of a sorted spectrum; more are not visible


# --- the winners of any sweeps ---


def plot_quantities(columns: Iterable[str], workload: Workload) -> list[Panel]:
    """Quantities of each layer: alpha, or some of NORMS."""
    spectra = drop_unmeasured(_read_winners(workload))
    return [plot_layers(describe_workload(workload), spectra, name) for name in columns if spectra]


def alpha_bars(workload: Workload) -> list[Panel]:
    """Mean alpha of each optimizer over the layers that are sound in all of its and the others' runs."""
    spectra = drop_unmeasured(_read_winners(workload))
    rows, which = average_alphas(spectra) if spectra else ([], None)
    about = replace(describe_workload(workload), seeds=[*map(len, spectra.values())]).noted(which)
    return [plot_values("alphas", about, rows)] if rows else []


def update_spectra(workload: Workload) -> list[Panel]:
    """Singular values of the updates: a panel for each step, of the matrices of one shape."""
    panels, spectra = [], _read_winners(workload)
    all_runs = [*chain(*spectra.values())]
    shape = find_largest_shape(all_runs)
    about = replace(describe_workload(workload), seeds=[*map(len, spectra.values())])
    for step in sorted({step for run in all_runs for step in run.updates}):
        updates = {name: select_updates(runs, step, shape) for name, runs in spectra.items()}
        if any(updates.values()):
            most, most_runs = (max(map(len, series.values())) for series in (updates, spectra))
            which = Note("matrices", count=most // max(1, most_runs), rows=shape[0], columns=shape[1])
            rows = [row for name in updates for row in make_rank_rows(name, updates[name], spectra[name])]
            panels.append(
                Panel("ranks", about.noted(Note("at_step", step=step), which), tidy([*rows, ALL_ONES]))
            )
    return panels


def _read_winners(workload: Workload) -> Measured:
    store = workload.store
    assert store is not None
    spectra = {choice.optimizer: read_spectra(choice.replicas, store) for choice in workload.choices}
    return {name: runs for name, runs in spectra.items() if runs}


# --- layers ---


def plot_layers(about: About, spectra: Measured, column: str) -> Panel:
    """One quantity of each layer.

    Args:
        about: what is said of the panel, without the number of seeds.
        spectra: at least one optimizer, each with at least one run that has measured its weights.
        column: `alpha` or one of NORMS.
    """
    first, is_alpha = read_layers(spectra), column == "alpha"
    names = list(first)
    sound = set(sound_layers(spectra))
    hides = is_alpha and bool(sound)  # an alpha of few eigenvalues would stretch the axis
    labels = [f"{first[name]['block']} {first[name]['kind']}" for name in names]
    if len(names) > _MOST_NAMES or len(set(labels)) < len(labels):
        labels = [str(number) for number in range(1, len(names) + 1)]
    quantity = f"alpha ({name_method(spectra)})" if is_alpha else NORMS[column]
    rows = []
    for optimizer, optimizer_runs in spectra.items():
        for name, label in zip(names, labels, strict=True):
            weights = [run.weights.get(name) for run in optimizer_runs]
            every = [None if w is None or (hides and not is_sound(w)) else w[column] for w in weights]
            values = [value for value in every if value is not None]
            role = kinds.LEFT_OUT if is_alpha and name not in sound else kinds.POINT
            keys = tuple(run.key for run in optimizer_runs)
            row = Row(quantity, optimizer, label, None, n=len(values), keys=keys, role=role)
            rows.append(add_range(row, values) if values and len(values) == len(every) else row)
    for name, label in zip(names, labels, strict=True) if is_alpha else ():
        value = None if hides and name not in sound else first[name]["alpha_random"]
        rows.append(Row(quantity, "", label, value, series="random matrix", role=kinds.RANDOM))
    about = replace(about, seeds=[*map(len, spectra.values())])
    about = about.noted(Note("no_layer", why=_count_reasons(spectra, [])) if is_alpha and not sound else None)
    return Panel("layers", about, tidy(rows))


def average_alphas(spectra: Measured, group: str = "") -> tuple[list[Row], Note]:
    """Mean alpha of each optimizer over the layers that are sound in all runs, and which layers these are.

    Args:
        spectra: as of `layers`.
        group: the label of the group; empty for the name of each optimizer.
    """
    sound = sound_layers(spectra)
    rows = []
    for name, runs in spectra.items():
        mean = mean_alpha(runs, sound)
        if mean is not None:
            x, keys = group or display_name(name), tuple(run.key for run in runs)
            row = Row("mean alpha", name, x, mean.mean, mean.sd, n=mean.seeds, keys=keys)
            median = replace(row, quantity="median of mean alpha", y=mean.median, y_sd=None)
            rows += [row, replace(median, role=kinds.MARK)]
    counts = {"layers": len(sound), "all": len(read_layers(spectra)), "why": _count_reasons(spectra, sound)}
    return rows, Note("mean_over", group=group, method=name_method(spectra), **counts)


def _count_reasons(spectra: Measured, sound: Sequence[str]) -> list[str]:
    """Why layers are left out: "small_n: 2"."""
    why: dict[str, set[str]] = {}
    for run in chain(*spectra.values()):
        for name, row in run.weights.items():
            if name not in sound and not is_sound(row):
                why.setdefault(", ".join(row["flags"]) or "no alpha", set()).add(name)
    return [f"{flags}: {len(names)}" for flags, names in sorted(why.items())]


def drop_unmeasured(spectra: Measured) -> Measured:
    """Only the runs that have measured their weights, and the optimizers that have such runs."""
    measured = {name: [run for run in runs if run.weights] for name, runs in spectra.items()}
    return {name: runs for name, runs in measured.items() if runs}


def read_layers(spectra: Measured) -> Mapping[str, dict[str, Any]]:
    """The layers of the model, in its order."""
    return next(iter(spectra.values()))[0].weights


def name_method(spectra: Measured) -> str:
    """The estimator of alpha."""
    methods = {row["method"] for run in chain(*spectra.values()) for row in run.weights.values()}
    return ", ".join(sorted(methods))


# --- updates ---


def find_largest_shape(runs: Iterable[Spectra]) -> Shape:
    """The shape that has the most singular values in all matrices together."""
    shapes: Counter[Shape] = Counter()
    for row in (row for run in runs for rows in run.updates.values() for row in rows.values()):
        shapes[row["rows"], row["cols"]] += len(row["update"])
    return shapes.most_common(1)[0][0] if shapes else (0, 0)


def select_updates(runs: Iterable[Spectra], step: int, shape: Shape) -> list[list[float]]:
    """The singular values of all matrices of one shape at one step, descending."""
    rows = [row for run in runs for row in run.updates.get(step, {}).values()]
    chosen = [row["update"] for row in rows if (row["rows"], row["cols"]) == shape]
    return [update for update in chosen if update and None not in update]


def make_rank_rows(
    optimizer: str, updates: Sequence[Sequence[float]], runs: Sequence[Spectra], name: str = ""
) -> list[Row]:
    """Mean and range at ranks from 1 on, equally spaced if they are many, over matrices and runs.

    `n` is the number of runs; `name` is that of the series, if it is not the optimizer's.
    """
    length = min(map(len, updates), default=0)
    last = min(length, _MOST_POINTS) - 1
    places = sorted({1 + round(i * (length - 1) / max(1, last)) for i in range(last + 1)})
    keys = tuple(run.key for run in runs)
    row = Row(UPDATE, optimizer, "", None, n=len(runs), keys=keys, series=name)
    return [
        add_range(replace(row, x=float(rank)), [update[rank - 1] for update in updates]) for rank in places
    ]
