"""Edges: told in grids and in searches, with a value to try next that nobody has tried there yet."""

import pytest

from htbench.harness.choice.edge import numbers, of_values
from htbench.results.compare.edges import find_edges
from htbench.results.compare.select import OPTIMIZER, choose
from htbench.results.frames.load import load_rows
from htbench.results.tables.footnotes import advise_next
from tests.helpers.past_searches import LOG, lrs, search


def hint(edge):
    return str(advise_next(edge)).removeprefix("; to go on, ")


def found(bench, columns=None):
    """The edges of the only choice, by column."""
    (choice,) = choose(load_rows(bench.write()), OPTIMIZER)
    return {column: hint(edge) for column, edge in find_edges(choice, columns or choice.axes).items()}


LR, P = "optimizer.lr", "optimizer.p"


@pytest.mark.parametrize(
    ("setting", "values", "chosen", "following"),
    [
        (LR, [0.01, 0.02, 0.04], 0.04, [0.08]),
        (LR, [0.01, 0.02, 0.04], 0.01, [0.005]),
        (LR, [0.001, 0.003, 0.01], 0.01, [0.033]),
        (LR, [0.01, 0.02, 0.04], 0.02, []),
        (LR, [0.02], 0.02, []),
        (P, [-0.5, 0.0, 0.25], -0.5, []),  # nothing lies below the legal end
        (P, [0.0, 0.125, 0.25], 0.0, [-0.12]),  # Muon
        (P, [-0.25, 0.0], -0.25, [-0.5]),
        (P, [0.5, 1.0], 1.0, []),  # SGDM: nothing lies above
        (P, [0.25, 0.5, 0.8], 0.8, [1]),  # not beyond the legal end
        (P, [0.1, 0.125, 0.2], 0.1, [0.08]),
        (P, [0.0, 0.125], 0.125, [0.25]),
        ("optimizer.momentum", [0.5, 0.95], 0.95, [None]),  # 1.8 is illegal, and so is 1
        ("optimizer.beta", [0.9, 0.95], 0.95, [0.975]),  # of a class whose ranges nobody knows
        ("optimizer.ns_steps", [3, 5], 5, [8]),
        # a rate without a neighbour within two octaves
        (LR, [1e-4, 5e-4, 3.0], 5e-4, [0.001, 0.00025]),
        (LR, [1e-7, 4.999e-4, 5e-4, 5.001e-4, 3], 5e-4, [0.001, 0.00025]),
        (LR, [0.01, 0.02, 0.18], 0.02, [0.04]),
        (LR, [0.001, 0.01, 0.1], 0.1, [0.2, 0.05]),  # an edge and a hole
        (LR, [0.01, 0.02, 0.02001], 0.02, [0.04]),  # nothing else is above
        (LR, [5e-4, 5.001e-4], 5e-4, [0.001, 0.00025]),
        (LR, [0.01, 0.04, 0.16], 0.04, []),  # two octaves
        (LR, [0.0097, 0.039, 0.16], 0.039, []),  # the same, rounded
        (LR, [0.01, 0.032, 0.1], 0.032, []),  # half a decade
        ("optimizer.momentum", [0.0, 0.5, 0.99], 0.5, []),  # not a scale of octaves
        ("optimizer.weight_decay", [0.0, 0.1, 0.3], 0.1, []),  # none of it is no far value
        ("optimizer.scale_rule", numbers(["shape", "rms0.2"]), "rms0.2", []),
    ],
)
def test_what_a_grid_lacks_beside_its_optimum(setting, values, chosen, following):
    own = of_values("htmuon" if setting == P else "muon", setting, chosen, values, values)
    assert [edge.following for edge in own] == following


def test_a_grid_as_the_paper_published_it_has_no_holes(bench, make):
    for lr, accuracy in ((0.001, 0.9), (0.005, 0.95), (0.02, 0.9)):
        metrics = make.image(accuracy, 0.4)
        bench.add("digits", "muon", lr, metrics=metrics, base={"protocol": "paper"})
    assert found(bench) == {}


@pytest.mark.parametrize("place", ["block", "sweep"])
def test_a_point_at_the_edge_of_one_grid_but_inside_another_is_inside(bench, make, place):
    for name, values in (("low", (0.01, 0.02)), ("high", (0.02, 0.04))):
        for lr in values:
            metrics = make.image(0.99 if lr == 0.02 else 0.9, 0.4)
            bench.add("digits", "muon", lr, metrics=metrics, **{place: name})
    assert found(bench) == {}


def test_a_value_that_another_sweep_has_tried_is_not_recommended(bench, make):
    for lr in (0.01, 0.02, 0.04):
        bench.add("digits", "muon", lr, metrics=make.image(0.99 if lr == 0.04 else 0.9, 0.4))
    assert found(bench) == {"lr": "add `optimizer.lr: 0.08` to block muon"}
    bench.add("digits", "muon", 0.08, sweep="more", state="diverged", steps=3)
    assert found(bench) == {}, "beyond 0.04 lies a divergence, which is a result"


# --- ragged grids ---


def ragged(bench, make, points, chosen):
    for lr, p in points:
        metrics = make.image(0.99 if (lr, p) == chosen else 0.9, 0.4)
        bench.add("digits", "htmuon", lr, p=p, metrics=metrics)


def test_a_ragged_grid_is_looked_at_by_slices(bench, make):
    ragged(bench, make, [(0.01, 0.1), (0.02, 0.1), (0.01, 0.2), (0.02, 0.2), (0.04, 0.2)], (0.02, 0.1))
    assert found(bench) == {
        "lr": "take `optimizer.lr: 0.04` with its other chosen settings out of `exclude`",
        "p": "add `optimizer.p: 0.05` to block htmuon",
    }


MORE = "take `optimizer.lr: 0.02` with its other chosen settings out of `exclude`"
UNEVEN = [*((lr, 0.1) for lr in (0.01, 0.02, 0.04)), *((lr, 0.2) for lr in (0.005, 0.01))]


@pytest.mark.parametrize(("chosen", "hints"), [((0.01, 0.2), {"lr": MORE}), ((0.02, 0.1), {})])
def test_only_the_ends_of_a_slice_are_edges(bench, make, chosen, hints):
    ragged(bench, make, UNEVEN, chosen)
    assert found(bench, ["lr"]) == hints


@pytest.mark.parametrize(
    ("chosen", "hints"),
    [((0.04, 0.4), {"lr": "add `optimizer.lr: 0.08` to block htmuon"}), ((0.02, 0.2), {})],
)
def test_a_candidate_alone_in_its_slice_is_held_against_its_block(bench, make, chosen, hints):
    ragged(bench, make, [(0.01, 0.1), (0.02, 0.2), (0.04, 0.4)], chosen)
    assert found(bench, ["lr"]) == hints


# --- searches ---

ANEW = " and run it with --replace: a changed axis begins a new search"


@pytest.mark.parametrize(
    ("axis", "best", "hints"),
    [
        (LOG, 0.0999, {"lr": f"widen `optimizer.lr` to high: 0.3 in block muon{ANEW}"}),
        (LOG, 0.00104, {"lr": f"widen `optimizer.lr` to low: 0.00033 in block muon{ANEW}"}),
        (LOG, 0.08, {}),
        (LOG, 0.0012, {}),
        (LOG | {"log": False}, 0.0995, {"lr": f"widen `optimizer.lr` to high: 0.15 in block muon{ANEW}"}),
        (LOG | {"log": False}, 0.0012, {"lr": ""}),  # the next value would be negative, and 0 is illegal
        (LOG | {"log": False}, 0.097, {}),
        ({"choices": [0.01, 0.03, 0.1]}, 0.1, {"lr": f"add `optimizer.lr: 0.33` to block muon{ANEW}"}),
        ({"choices": [0.01, 0.03, 0.1]}, 0.03, {}),
    ],
)
def test_the_winner_of_a_search_at_its_bound(bench, make, axis, best, hints):
    search(bench, make, {"optimizer.lr": axis}, lrs(0.004, 0.02, 0.05, best))
    assert found(bench) == hints


def test_a_hole_between_draws_is_filled_by_more_trials(bench, make):
    wide = LOG | {"low": 1e-7, "high": 3.0}
    search(bench, make, {"optimizer.lr": wide}, lrs(1e-6, 3e-4, 0.09, 0.005))
    assert found(bench) == {"lr": "raise `search.trials` to 6"}
    bench.add("digits", "muon", 0.02, sweep="grid", metrics=make.image(0.1, 0.4))
    assert found(bench) == {"lr": "raise `search.trials` to 6"}, "3e-4 is a sixteenth"
    bench.add("digits", "muon", 0.002, sweep="grid", metrics=make.image(0.1, 0.4))
    assert found(bench) == {}, "another sweep was near"


def test_a_whole_number_at_its_bound(bench, make):
    axes = {"optimizer.lr": LOG, "optimizer.ns_steps": {"low": 3, "high": 7, "log": False, "whole": True}}
    trials = [{"optimizer.lr": 0.02, "optimizer.ns_steps": n} for n in (4, 5, 7)]
    search(bench, make, axes, trials)
    assert found(bench) == {"ns_steps": f"widen `optimizer.ns_steps` to high: 9 in block muon{ANEW}"}


@pytest.mark.parametrize(
    ("name", "choices"), [("scale_rule", ["shape", "rms0.2"]), ("aux_betas", [[0.9, 0.95], [0.9, 0.99]])]
)
def test_choices_that_are_no_numbers_have_no_edge(bench, make, name, choices):
    axes = {"optimizer.lr": LOG, f"optimizer.{name}": {"choices": choices}}
    search(bench, make, axes, [{"optimizer.lr": 0.02, f"optimizer.{name}": choice} for choice in choices])
    assert found(bench) == {}


def test_beyond_the_bound_of_one_search_another_sweep_may_have_been(bench, make):
    search(bench, make, {"optimizer.lr": LOG}, lrs(0.04, 0.0999))
    assert found(bench)
    search(bench, make, {"optimizer.lr": LOG | {"high": 1.0}}, lrs(0.2), sweep="wide")
    assert found(bench) == {}
    assert len(load_rows(bench.store)) == 3


def test_a_grid_beyond_the_bound_of_a_search_counts_as_tried(bench, make):
    search(bench, make, {"optimizer.lr": LOG}, lrs(0.04, 0.0999))
    bench.add("digits", "muon", 0.3, sweep="grid", metrics=make.image(0.1, 0.4))
    assert found(bench) == {}
