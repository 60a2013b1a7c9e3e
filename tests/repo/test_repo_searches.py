"""How often searches of a size find the order of rows, where the answer is known."""

import numpy as np
import pandas as pd
import pytest

from docs.search_section import Searched, chances, searched, section


def row(*settings):
    """A row whose settings have these losses, on each of eight seeds."""
    losses = np.repeat(np.array(settings)[:, None], 8, axis=1)
    return Searched(losses, losses)


def test_without_noise_a_seed_and_all_settings_are_enough():
    rows = [row(2.0, 2.1, 2.2), row(2.05, 2.3, 2.4)]
    few, every = chances(rows, settings=(1, 3), seeds=(1,))
    assert (every.right, every.given_away) == (1.0, 0.0)
    # One setting of each: the first row's is below the other's in 3 + 2 + 2 of 9 pairs.
    assert few.right == pytest.approx(7 / 9, abs=0.03)
    assert few.given_away == pytest.approx((0.1 + (0.25 + 0.35) / 3) / 2, abs=0.01)


def test_choices_by_validation_are_worth_their_test_loss():
    made = Searched(np.array([[1.0, 1.0], [2.0, 2.0]]), np.array([[4.0, 6.0], [3.0, 3.0]]))
    assert made.choose(np.array([0, 1]), np.array([0])).mean() == 5.0


@pytest.mark.slow
def test_the_section_waits_for_all_runs(tmp_path):
    lines = [
        {"optimizer": name, "lr": lr, "aux_lr": None, "betas": (0.9, 0.95), "seed": seed}
        | {"val_loss": 2 + lr + 0.01 * seed, "test_loss": 2 + lr + 0.01 * seed + (name == "muon")}
        for name in ("adamw", "muon")
        for lr in (0.1, 0.2, 0.3)
        for seed in range(8)
    ]
    frame = pd.DataFrame(lines)
    assert [len(row.test) for row in searched(frame).values()] == [3, 3]
    picture, measured = tmp_path / "searches.png", tmp_path / "searches.csv"
    assert "adamw 2.1350, muon 3.1350 (+1.0000, standard error 0.0000)" in section(frame, picture, measured)
    assert picture.stat().st_size > 1000
    head, *sizes = measured.read_text().splitlines()
    assert head == "settings,seeds,right,given_away" and [one[:3] for one in sizes] == [
        "2,1",
        "2,2",
        "2,3",
        "2,4",
        "2,6",
    ]
    frame.loc[3, ["val_loss", "test_loss"]] = None
    none = tmp_path / "none"
    assert section(frame, none, none) == section(pd.DataFrame(), none, none) == "" and not none.exists()
