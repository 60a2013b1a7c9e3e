"""The shipped sweep files: they have a run for all that the paper shows."""

import functools
from collections import Counter

import pytest

from htbench.harness.paper import experiments, reported, scales
from htbench.harness.paper.reported import Place
from htbench.harness.store.points import SEED_FIELDS
from htbench.harness.system.environment import HOME
from htbench.sweeps.plan.planned import Planned, search_points
from htbench.sweeps.spec.sweep_file import load

SHIPPED = HOME / "sweeps"
WHOLE = ("paper", "nano", "quick")  # scales that have all of the paper's rows on the workloads that they have


@functools.cache
def planned(scale: str) -> dict[str, list[Planned]]:
    """The points of each sweep of a scale, by its name."""
    specs = [load(path) for path in sorted((SHIPPED / scale).glob("*.yaml"))]
    return {spec.name: search_points(spec) for spec in specs}


@functools.cache
def by_rule(scale: str) -> dict[tuple[str, ...], list[Planned]]:
    """The points of a scale by sweep, task, model, replica and optimizer."""
    found: dict[tuple[str, ...], list[Planned]] = {}
    for name, points in planned(scale).items():
        for one in points:
            config = one.config
            place = (name, config.task, config.model, config.replica, config.optimizer.name)
            found.setdefault(place, []).append(one)
    return found


def runs(scale: str, place: Place, name: str = "") -> list[Planned]:
    """The planned points of a place, found by their configs."""
    sweep = experiments.sweep(scale, name or experiments.places(scale)[place])
    own = by_rule(scale).get((sweep, *place.workload, place.replica, place.optimizer), [])
    return [
        one
        for one in own
        if all(one.config.optimizer.hyper[name] == value for name, value in place.hyper.items())
    ]


@pytest.mark.parametrize("scale", WHOLE)
def test_every_published_number_has_a_planned_run(scale: str) -> None:
    shown = [line for line in reported.everything() if (line.dataset, line.model) in scales.twins(scale)]
    assert len(shown) == (329 if scale == "paper" else len(_of_images()))
    for line in shown:
        assert runs(scale, line.at(scale).place), line


def _of_images() -> list[reported.Reported]:
    return [line for line in reported.everything() if not line.model.startswith(("llama", "gpt2"))]


def test_the_ladder_has_settings_of_the_paper_where_it_ends_at_20_tokens_per_parameter() -> None:
    found = {
        part: {
            (line.optimizer, line.p, line.interval)
            for line in reported.everything()
            if runs("ladder", line.at("ladder").place, part)
        }
        for part in experiments.experiments("ladder")
    }
    three = {("adamw", None, None), ("muon", None, None), ("htmuon", 0.125, 1)}
    assert found["s1"] == found["s2"] == three
    assert found["s1-ablations"] == {("htmuon", 0.25, 1), ("htmuon", 0.125, 5)}
    others = {optimizer for optimizer, _, interval in found["s1-others"] if interval in (None, 1)}
    assert others > {"adam", "normuon", "soap", "htmuon_ht", "htmuon_ns"} and len(found["s1-others"]) == 12
    first = [one for part in ("s1", "s1-others") for one in planned("ladder")[f"ladder-{part}"]]
    assert {one.config.steps for one in first} == {1771}


def test_the_published_rate_is_among_the_planned_ones() -> None:
    for line in reported.everything():
        rates = {one.config.optimizer.lr for one in runs("paper", line.place)}
        assert line.lr is None or line.lr in rates, (line, rates)


def test_the_stated_grids_are_planned_whole() -> None:
    stated = {
        (row["dataset"], row["model"], row["optimizer"]): sorted(map(float, row["lr_grid"].split()))
        for row in reported.rows("hyperparameters")
        if row["lr_grid"]
    }
    found = {
        (place.dataset, place.model, place.optimizer): [
            one.config.optimizer.lr for one in runs("paper", place)
        ]
        for place in reversed(experiments.places("paper"))  # the first place of an optimizer has its grid
    }
    assert {name: sorted(rate for rate in found[name] if rate is not None) for name in stated} == stated


@pytest.mark.parametrize("scale", WHOLE)
def test_every_panel_of_a_figure_has_planned_runs(scale: str) -> None:
    shown = {(place.dataset, place.model, place.optimizer) for place in experiments.places(scale)}
    for row in reported.rows("figures"):
        workloads = [
            (dataset, model)
            for dataset in row["dataset"].split()
            for model in row["models"].split()
            if (dataset, model) in scales.twins(scale)
        ]
        assert workloads or scale != "paper", row
        for workload in workloads:
            for optimizer in set(row["optimizers"].split()) - {"..."}:
                assert (*workload, optimizer) in shown, (row, workload, optimizer)


@pytest.mark.parametrize("scale", WHOLE)
def test_shared_points_are_planned_once(scale: str) -> None:
    keys = Counter(one.point.key for points in planned(scale).values() for one in points)
    assert max(keys.values()) == 1
    assert set(planned(scale)) == {experiments.sweep(scale, name) for name in experiments.experiments(scale)}


@pytest.mark.parametrize("scale", ["nano", "quick"])
def test_miniatures_give_every_row_the_same_budget_and_fresh_seeds(scale: str) -> None:
    sizes = {len(runs(scale, place)) for place in experiments.places(scale)}
    assert sizes == {6 if scale == "nano" else 3}
    for path in (SHIPPED / scale).glob("*.yaml"):
        assert load(path).fresh_seeds == 3
    assert {one.config.protocol for points in planned(scale).values() for one in points} == {"honest"}


def test_the_paper_scale_follows_its_protocol() -> None:
    for points in planned("paper").values():
        for one in points:
            assert (one.config.protocol, one.config.seed, one.config.data_seed) == ("paper", 5, 42)
            if one.config.task == "c4":
                assert one.config.precision.params == "bfloat16"
                assert (one.config.batch_size, one.config.seq_len, one.config.grad_clip) == (512, 256, None)


def test_the_equal_budget_has_every_optimizer() -> None:
    from htbench.optimizers import ZOO

    for path in sorted((SHIPPED / "equal").glob("*.yaml")):
        spec = load(path)
        sizes = Counter(one.config.optimizer.name for one in search_points(spec))
        assert set(sizes) == set(ZOO)
        assert set(sizes.values()) == {15}, "five rates by three weight decays"
        assert not set(spec.base) & set(SEED_FIELDS)
