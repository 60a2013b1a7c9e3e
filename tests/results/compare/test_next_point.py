"""Beside an optimum at the edge of a grid: could one more point change the winner?"""

import pytest

from results.compare.view import View
from results.frames.load import load
from results.tables.registry import TABLES
from tests.helpers.rendering import render


def notes(bench):
    text = render(TABLES["main_result"](View(load(bench.write()))), "md")
    return [line for line in text.splitlines() if "at the edge of its grid" in line]


def grid(bench, make, optimizer, accuracies):
    """Validation accuracies at learning rates 0.01, 0.02, 0.04 ..."""
    for i, accuracy in enumerate(accuracies):
        bench.add("digits", optimizer, 0.01 * 2**i, metrics=make.image(accuracy, 0.4))


@pytest.mark.parametrize(
    ("accuracies", "told"),
    [
        # the best of muon has 95 %: adamw must gain 3
        (
            [0.86, 0.90, 0.92],
            "would not change the winner: it must gain 3.00 to overtake muon on validation, ",
        ),
        ([0.86, 0.87, 0.92], "could change the winner: it must gain 3.00 to overtake muon on validation, "),
        ([0.96, 0.90, 0.86], "it leads on validation already: one more point can't change the winner"),
    ],
)
def test_the_last_step_towards_the_edge_decides(bench, make, accuracies, told):
    grid(bench, make, "muon", [0.90, 0.95, 0.90])
    grid(bench, make, "adamw", accuracies)
    [note] = notes(bench)
    assert told in note
    gained = {
        "would": "the last step of the grid gained 2.00",
        "could": "the last step of the grid gained 5.00",
    }
    assert gained.get(told[:5], "") in note


def test_a_neighbour_that_diverged_leaves_it_open(bench, make):
    grid(bench, make, "muon", [0.90, 0.95, 0.90])
    bench.add("digits", "adamw", 0.01, state="diverged", reason="x at step 3", steps=3)
    bench.add("digits", "adamw", 0.02, metrics=make.image(0.92, 0.4))
    [note] = notes(bench)
    assert "whether one more point would change the winner is not known: it must gain 3.00" in note


def test_a_row_alone_has_nobody_to_overtake(bench, make):
    grid(bench, make, "adamw", [0.90, 0.92, 0.93])
    [note] = notes(bench)
    assert note.endswith("to block adamw")
