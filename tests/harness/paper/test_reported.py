"""The paper as data."""

import pytest

from htbench.harness.errors import UsageError
from htbench.harness.paper import experiments, reported


def test_all_published_numbers_are_there() -> None:
    lines = reported.everything()
    assert len(lines) == 329
    assert len(reported.tables()) == 18
    assert len(set(lines)) == len(lines)


def test_a_number_keeps_its_printed_digits() -> None:
    *_, last = reported.of_table("p_grid_c4")
    assert (last.printed, last.digits, last.value) == ("22.1", 1, 22.1)
    assert (last.optimizer, last.hyper, last.replica) == ("htmuon_normuon", {"p": 0.25, "interval": 1}, "")


def test_an_unknown_table_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="main_result"):
        reported.of_table("main_results")


def test_tables_share_experiments() -> None:
    assert experiments.needed("paper", "htmuon_ht") == ["main_result", "optimizer_variants", "htmuon_ht"]
    assert experiments.needed("paper", "wall_clock") == ["wall_clock"]
    assert experiments.needed("nano", "p_grid_cifar") == ["cifar", "p_grid_cifar"]
    assert experiments.needed("nano", "wall_clock") == [], "it is of language models"
    with pytest.raises(UsageError, match="Unknown experiment 'cifer'; did you mean 'cifar'"):
        experiments.needed("nano", "cifer")


def test_only_sweeps_of_the_list_have_a_scale() -> None:
    assert experiments.scale_of("nano-cifar") == "nano"
    assert experiments.scale_of("nano-main_result") == "", "it trained language models, before 0.1.0"
    assert experiments.scale_of("nano-spectra") == ""
    assert experiments.scale_of("equal-c4-llama-60m") == ""
