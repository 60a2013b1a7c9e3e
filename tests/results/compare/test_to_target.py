"""Steps and time to a target, against cases whose answer is known by hand."""

import json

import pytest

from htbench.results.compare.to_target import estimate_seconds, find_steps_to, find_targets, read_evaluations

FALLING = [(100, 9.0), (200, 5.0), (300, 3.0), (400, 2.0)]


@pytest.mark.parametrize(
    ("target", "steps"),
    [
        (5.0, 200.0),  # an evaluation that equals the target
        (4.0, 300.0),  # at the first evaluation that is good enough, as the paper counts
        (2.25, 400.0),
        (9.0, 100.0),
        (20.0, 100.0),  # good enough from the start
        (2.0, 400.0),
        (1.99, None),  # never
    ],
)
def test_a_falling_curve_reaches_each_target_at_an_evaluation(target, steps):
    assert find_steps_to(FALLING, target, higher_is_better=False) == steps
    rising = [(step, -value) for step, value in FALLING]
    assert find_steps_to(rising, -target, higher_is_better=True) == steps


def test_the_first_time_counts_even_if_noise_takes_it_back():
    noisy = [(10, 6.0), (20, 4.0), (30, 7.0), (40, 3.0)]
    assert find_steps_to(noisy, 5.0, higher_is_better=False) == 20.0
    assert find_steps_to(noisy, 3.5, higher_is_better=False) == 40.0


def test_a_plateau_at_the_target_is_reached_where_it_begins():
    assert find_steps_to([(10, 5.0), (20, 4.0), (30, 4.0)], 4.0, higher_is_better=False) == 20.0
    assert find_steps_to([], 4.0, higher_is_better=False) is None


def test_the_target_is_what_muon_ends_with_on_the_same_seeds():
    runs = [{"seed": s, "data_seed": s, "end": end} for s, end in ((1, 3.0), (2, 2.0), (2, 2.5), (3, None))]
    found = find_targets(runs, lambda run: run["end"], higher_is_better=False)
    assert found == {(1, 1): 3.0, (2, 2): 2.5}, "of two runs of the same seeds the worse one"
    assert find_targets(runs, lambda run: run["end"], higher_is_better=True)[2, 2] == 2.0


def test_evaluations_are_read_from_whatever_the_file_holds(tmp_path):
    path = tmp_path / "metrics.jsonl"
    rows = [
        {"step": 1, "loss": 3.0},
        {"step": 20, "val_loss": 2.0, "val_perplexity": 7.5},
        {"step": 10, "val_loss": 9.0, "val_perplexity": None},  # exp overflowed
        {"step": 20, "val_loss": 2.0, "val_perplexity": 7.0},  # written again after a resume
        {"step": "late", "val_perplexity": 1.0},
        {"step": 30, "test_perplexity": 1.0},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"step": 40, "val_perplexity": 5')
    assert read_evaluations(path, "val_perplexity") == [(20, 7.0)]
    assert read_evaluations(path, "val_loss") == [(10, 9.0), (20, 2.0)]
    assert read_evaluations(tmp_path / "none", "val_loss") == []


def test_time_is_the_runs_own_share_of_its_time():
    run = {"useful_seconds": 50.0, "steps": 200}
    assert estimate_seconds(run, 200.0) == 50.0 and estimate_seconds(run, 30.0) == 7.5
    assert estimate_seconds({"useful_seconds": float("nan"), "steps": 200}, 30.0) is None
    assert (
        estimate_seconds({"useful_seconds": 1.0, "steps": 0}, 30.0) is None
        and estimate_seconds({}, 30.0) is None
    )
