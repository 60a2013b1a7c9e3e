"""Who wins: by the metric of the validation split and its direction, then by the loss, then by the order."""

from htbench.harness.choice.winner import mean_score, score, winner
from tests.helpers.records import scored


def test_scores_follow_the_validation_metric_and_its_direction():
    good = scored("digits", val_accuracy=0.9, val_loss=0.5)
    assert score(good) < score(scored("digits", val_accuracy=0.8, val_loss=0.1))
    good = scored("pydocs", val_perplexity=20.0, val_loss=3.0)
    assert score(good) < score(scored("pydocs", val_perplexity=21.0, val_loss=3.1))
    assert score(scored("digits", "diverged")) is None
    assert score(scored("digits", val_accuracy=None, val_loss=None)) is None


def test_a_test_figure_never_decides():
    a = scored("digits", val_accuracy=0.9, val_loss=0.5, test_accuracy=0.1)
    b = scored("digits", val_accuracy=0.8, val_loss=0.5, test_accuracy=1.0)
    assert winner({"a": score(a), "b": score(b)}) == ("a", [])


def test_a_winner_its_ties_and_nobody():
    assert winner({"a": (1.0, 3.0), "b": (1.0, 2.0), "c": (2.0, 0.0), "d": None}) == ("b", ["a"])
    assert winner({"a": (1.0, 2.0), "b": (1.0, 2.0)})[0] == "a", "the first of equals"
    assert winner({"a": None}) == (None, [])
    assert mean_score([(1.0, 2.0), (3.0, 4.0)]) == (2.0, 3.0)
    assert mean_score([(1.0, 2.0), None]) is None and mean_score([]) is None
