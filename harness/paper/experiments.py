"""The list of experiments: which settings each table and figure needs, and which sweep has them.

Tables share runs. A setting belongs to the sweep of the first table that needs it, so each is planned once.
The sweep files `sweeps/<scale>/<scale>-<experiment>.yaml` are written from this list. Torch-free.
"""

import functools

from htbench.harness.errors import UsageError, nearest
from htbench.harness.paper import reported, scales
from htbench.harness.paper.reported import Place

# The experiment of each table. Tables that are missing here need no settings but those of earlier ones.
_EXPERIMENTS = {
    "main_result": "main_result",
    "openwebtext": "openwebtext",
    "cifar": "cifar",
    "imagenet": "imagenet",
    "llama_1b": "llama_1b",
    "optimizer_variants": "optimizer_variants",
    "interval_perplexity": "interval",
    "wall_clock": "wall_clock",
    "p_grid_c4": "p_grid_c4",
    "p_grid_cifar": "p_grid_cifar",
    "p_grid_openwebtext": "p_grid_openwebtext",
    "htmuon_ht": "htmuon_ht",
}
# Parts of the ladder at 20 tokens per parameter. Others train the same models shorter, longer or otherwise.
_OF_LADDER = ("s1", "s2", "s1-others", "s1-ablations")
_SVD = "muon_ns_vs_svd"  # a figure, whose Muon with an exact SVD is in no table


@functools.cache
def places(scale: str) -> dict[Place, str]:
    """The experiment of every place whose workload the scale has, in the order of the paper."""
    experiment_of: dict[Place, str] = {}
    for table, experiment in _EXPERIMENTS.items():
        for line in reported.of_table(table, scale):
            experiment_of.setdefault(line.place, experiment)
    for model in ("llama-60m", "llama-135m"):
        svd = Place(dataset="c4", model=model, optimizer="muon_svd", scale=scale)
        experiment_of.setdefault(svd, _SVD)
    return {place: name for place, name in experiment_of.items() if place.has_twin}


def experiments(scale: str) -> list[str]:
    """The names of the experiments at a scale; of the ladder its parts that have rows of the paper."""
    return [*_OF_LADDER] if scale == "ladder" else list(dict.fromkeys(places(scale).values()))


def needed(scale: str, name: str) -> list[str]:
    """The experiments that a table, or one experiment itself, needs; none if the scale has no such workload.

    Raises:
        UsageError: neither is called so.
    """
    available = experiments(scale)
    if name in reported.tables():
        experiments_of_table = {places(scale).get(line.place) for line in reported.of_table(name, scale)}
        return [experiment for experiment in available if experiment in experiments_of_table]
    if name not in {*available, *experiments("paper")}:
        raise UsageError(f"Unknown experiment {name!r}; {nearest(name, {*available, *reported.tables()})}")
    return [name] if name in available else []


def sweep(scale: str, experiment: str) -> str:
    """The name of an experiment's sweep."""
    return f"{scale}-{experiment}"


def scale_of(sweep_name: str) -> str:
    """The scale of a sweep of this list; empty for any other sweep."""
    scale, _, experiment = sweep_name.partition("-")
    return scale if scale in scales.SCALES and experiment in experiments(scale) else ""
