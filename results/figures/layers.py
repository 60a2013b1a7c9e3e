"""Spectra of the weights as panels, whichever runs they come from: layers, and means of alpha."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from results.compare.winners import over_seeds
from results.figures.kinds import Bar, LayerPanel
from results.figures.style import display_name
from results.frames.spectra import Row, Spectra, is_sound, mean_alpha, sound_layers

Found = Mapping[str, Sequence[Spectra]]  # by optimizer, on one workload
NORMS = {"sigma_max": "spectral norm", "fro": "Frobenius norm"}

_MOST_NAMES = 24  # layers; more are numbered, since their names would not fit


def layer_panel(title: str, lines: Sequence[str], found: Found, column: str, kind: str = "") -> LayerPanel:
    """One quantity of each layer.

    Args:
        title: above the panel.
        lines: below the title, if not empty; how many seeds is added.
        found: at least one optimizer, each with at least one run that has measured its weights.
        column: `alpha` or one of NORMS.
        kind: only the layers of this kind; empty for all.
    """
    first, is_alpha = first_weights(found), column == "alpha"
    rows = {name: row for name, row in first.items() if not kind or row["kind"] == kind}
    sound = set(sound_layers(found))
    hides = is_alpha and bool(sound)  # an alpha of few eigenvalues would stretch the axis
    how = over_seeds(seeds(found), "mean and range")
    missing = is_alpha and not sound
    few = f"no layer is fit for a mean{_reasons(found, [])}" if missing else ""
    return LayerPanel(
        title,
        "\n".join(filter(None, [*lines, how, few])),
        "block" if kind else "layer",
        f"alpha ({method(found)})" if is_alpha else NORMS[column],
        [str(row["block"]) for row in rows.values()] if kind else _short(rows),
        {
            optimizer: [[_value(one.weights.get(name), column, hides) for name in rows] for one in own]
            for optimizer, own in found.items()
        },
        [None if hides and name not in sound else row["alpha_random"] for name, row in rows.items()]
        if is_alpha
        else [],
        [place for place, name in enumerate(rows) if name not in sound] if is_alpha else [],
        {optimizer: [one.key for one in own] for optimizer, own in found.items()},
    )


def _value(row: Row | None, column: str, hides: bool) -> float | None:
    return None if row is None or (hides and not is_sound(row)) else row[column]


def _short(rows: Mapping[str, Row]) -> list[str]:
    names = [f"{row['block']} {row['kind']}" for row in rows.values()]
    fit = len(names) <= _MOST_NAMES and len(set(names)) == len(names)
    return names if fit else [str(number) for number in range(1, len(names) + 1)]


def mean_bars(found: Found, group: str = "") -> tuple[list[Bar], str]:
    """Mean alpha of each optimizer over the layers that are sound in all runs, and which layers these are.

    Args:
        found: as of `layer_panel`.
        group: the label of the bars; empty for the name of each optimizer.
    """
    layers = sound_layers(found)
    means = {name: mean_alpha(own, layers) for name, own in found.items()}
    bars = [
        Bar(
            group or display_name(name),
            name,
            mean.mean,
            mean.sd,
            mean.seeds,
            keys=tuple(one.key for one in found[name]),
            median=mean.median,
        )
        for name, mean in means.items()
        if mean is not None
    ]
    return bars, f"mean over {len(layers)} of {len(first_weights(found))} layers{_reasons(found, layers)}"


def _reasons(found: Found, layers: Sequence[str]) -> str:
    """Why layers are left out: " (small_n: 2)"."""
    why: dict[str, set[str]] = {}
    for own in found.values():
        for one in own:
            for name, row in one.weights.items():
                if name not in layers and not is_sound(row):
                    why.setdefault(", ".join(row["flags"]) or "no alpha", set()).add(name)
    return f" ({'; '.join(f'{flags}: {len(names)}' for flags, names in sorted(why.items()))})" if why else ""


# --- what is said of runs ---


def with_weights(found: Found) -> Found:
    """Only the runs that have measured their weights, and the optimizers that have such runs."""
    measured = {name: [one for one in own if one.weights] for name, own in found.items()}
    return {name: own for name, own in measured.items() if own}


def first_weights(found: Found) -> Mapping[str, Row]:
    """The layers of the model, in its order."""
    return next(iter(found.values()))[0].weights


def seeds(found: Found) -> list[int]:
    """The number of seeds of each optimizer."""
    return [len(own) for own in found.values()]


def method(found: Found) -> str:
    """The estimator of alpha."""
    methods = {row["method"] for own in found.values() for one in own for row in one.weights.values()}
    return ", ".join(sorted(methods))
