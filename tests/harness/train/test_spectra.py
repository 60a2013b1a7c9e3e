"""Spectra that a run records: the right rows, whatever happens to it, and its numbers as without them."""

import json
import os
import shutil

import pytest
import torch

from htbench.harness.config.key import run_key
from htbench.harness.config.settings import FIELDS, resolve_config
from htbench.harness.errors import UsageError
from htbench.harness.show.note import Note
from htbench.harness.spectra import layers
from htbench.harness.spectra.tail import METHODS
from htbench.harness.store import Store, curve
from htbench.harness.store.integrity import find_contradiction
from htbench.harness.train.checkpoint import load_weights
from tests.helpers import in_ranks
from tests.helpers.command import TINY
from tests.helpers.interrupting import assert_resumes, finish, interrupt

SPECTRA = {"spectra.every": 3, "spectra.updates": [0, 0.5, 1]}
LM = {"task": "pydocs", "model": "llama-nano", "batch_size": 16}


def rows_of(root, key):
    return curve.read(Store(root).files(key).spectra)


def recorded(root, settings):
    record, _ = finish(resolve_config(settings), root)
    return record, rows_of(root, record.key)


def steps(rows, name):
    return sorted({row["step"] for row in rows if name in row})


def test_a_run_can_name_every_estimator():
    assert FIELDS["spectra.method"].choices == METHODS


def test_the_rows_are_the_weights_and_the_updates(tmp_path, tiny):
    settings = tiny | SPECTRA | {"optimizer.name": "muon", "checkpoint.keep_weights": True}
    record, rows = recorded(tmp_path, settings)
    assert steps(rows, "alpha") == [3, 6, 8] and steps(rows, "update") == [1, 4, 8]
    state, _ = load_weights(Store(tmp_path).files(record.key))
    measured = {layer.name: layer for layer in layers.measure(state, random_baseline=True)}
    last = {row["layer"]: row for row in rows if row["step"] == 8 and "alpha" in row}
    assert list(last) == list(measured)
    for name, row in last.items():
        for column in ("alpha", "alpha_random", "sigma_max", "fro", "stable_rank", "n_tail"):
            assert row[column] == pytest.approx(getattr(measured[name], column), rel=1e-5)
        assert row["method"] == "hill_mid" and row["flags"] == list(measured[name].flags)


def test_updates_of_exact_maps_have_the_singular_values_that_the_map_gives(tmp_path, tiny):
    for rule, power in (("muon_svd", 0.0), ("htmuon", 0.125)):
        _, rows = recorded(tmp_path / rule, tiny | SPECTRA | {"optimizer.name": rule})
        for row in rows:
            if "update" in row:
                expected = sorted((s**power for s in row["momentum"]), reverse=True)
                assert row["update"] == pytest.approx(expected, rel=2e-3)


def test_of_adamw_the_update_is_what_lr_multiplies(tmp_path, tiny):
    """Its step is found again from the weights before and after it."""
    adamw = {"optimizer.name": "adamw", "optimizer.lr": 0.01, "optimizer.weight_decay": 0.1}
    settings = tiny | adamw | {"schedule.name": "constant", "schedule.warmup": 0, "spectra.updates": [1]}
    config = resolve_config(settings | {"steps": 4, "checkpoint.keep_weights": True})
    interrupt(resolve_config(settings | {"steps": 4, "log_every": 1}), tmp_path, 2)
    before, step = load_weights(Store(tmp_path).files(run_key(config)))
    record, _ = finish(config, tmp_path)
    after, _ = load_weights(Store(tmp_path).files(record.key))
    assert step == 3
    for row in rows_of(tmp_path, record.key):
        old, new = before[row["layer"]].double(), after[row["layer"]].double()
        update = (old * (1 - 0.01 * 0.1) - new) / 0.01
        assert row["update"] == pytest.approx(layers.singular_values(update.flatten(1)).tolist(), rel=1e-3)
        assert "momentum" not in row


@pytest.mark.parametrize("rule", ["cautious", "sgdm"])
def test_rules_that_show_no_matrix_have_no_rows_of_updates(tmp_path, tiny, rule):
    record, rows = recorded(tmp_path, tiny | SPECTRA | {"optimizer.name": rule})
    assert steps(rows, "update") == [] and steps(rows, "alpha") == [3, 6, 8]
    assert "updates show no matrix" in Store(tmp_path).files(record.key).log.read_text()


def test_all_layers_have_the_embedding_and_the_head(tmp_path, tiny):
    wide = tiny | LM | {"optimizer.name": "muon", "spectra.layers": "all", "spectra.updates": [0]}
    _, rows = recorded(tmp_path, wide | {"steps": 2, "spectra.final": True})
    kinds = {row["layer"]: row["kind"] for row in rows if "kind" in row}
    assert {"embed", "head"} <= set(kinds.values())
    assert {row["layer"] for row in rows if "update" in row} == set(kinds)


def test_a_run_without_spectra_has_no_file(tmp_path, tiny):
    record, _ = finish(resolve_config(tiny), tmp_path)
    assert not Store(tmp_path).files(record.key).spectra.exists()


@pytest.mark.parametrize(("workload", "rule"), [({}, "htmuon"), (LM, "adamuon")], ids=["digits", "pydocs"])
def test_an_interrupted_run_has_the_same_rows_and_numbers(tmp_path, tiny, workload, rule):
    """The matrices of the language model step as stacks."""
    settings = tiny | workload | {"optimizer.name": rule, "optimizer.lr": 0.02, "log_every": 1}
    plain, plain_curve = finish(resolve_config(settings), tmp_path / "plain")
    record, curve = assert_resumes(settings | SPECTRA, tmp_path, 3, 6)
    assert (record.metrics, curve) == (plain.metrics, plain_curve)
    assert rows_of(tmp_path / "parts", record.key) == rows_of(tmp_path / "whole", record.key) != []


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """Settings and rows of a whole run, and a store in which it was stopped."""
    settings = TINY | SPECTRA | {"optimizer.name": "muon", "log_every": 1}
    root = tmp_path_factory.mktemp("stopped")
    interrupt(resolve_config(settings), root / "parts", 4)
    return settings, recorded(root / "whole", settings)[1], root / "parts"


@pytest.mark.parametrize("end", ["rows after the checkpoint", "a torn line", "no rows", "not asked any more"])
def test_rows_that_a_crash_left_after_the_checkpoint_are_cut(tmp_path, stopped, end):
    settings, rows, root = stopped
    shutil.copytree(root, tmp_path / "parts")
    path = Store(tmp_path / "parts").files(run_key(resolve_config(settings))).spectra
    if end == "no rows":
        path.write_text("")
        rows = [row for row in rows if row["step"] > 5]
    elif end == "a torn line":
        path.write_text(path.read_text() + '{"step": 6, "layer": "stem.0.0.weight", "alp')
    else:
        wrong = [{"step": step, "layer": "stem.0.0.weight", "alpha": 0.0} for step in (6, 7, 8)]
        path.write_text(path.read_text() + "".join(json.dumps(row) + "\n" for row in wrong))
    if end == "not asked any more":
        settings = {name: value for name, value in settings.items() if name not in SPECTRA}
        rows = [row for row in rows if row["step"] <= 5]
    record, _ = finish(resolve_config(settings), tmp_path / "parts")
    assert rows_of(tmp_path / "parts", record.key) == rows
    assert len(path.read_text().splitlines()) == len(rows)


def test_a_killed_run_ends_with_the_same_rows(tmp_path, tiny, htbench):
    settings = tiny | SPECTRA | {"optimizer.name": "muon", "checkpoint.every_steps": 3}
    words = [f"{name}={value}" for name, value in settings.items()]
    killed = htbench.start("run", *words, crash="checkpoint.after")
    killed.communicate(timeout=300)
    assert killed.returncode < 0
    again = htbench("run", *words)
    assert again.returncode == 0, again.stderr
    record, rows = recorded(tmp_path / "whole", settings)
    assert rows_of(htbench.root, record.key) == rows


def test_of_several_processes_each_measures_what_it_steps(tmp_path):
    """The state is sharded. Losses are those without spectra; the rows have all layers in their order."""
    settings = in_ranks.LM | {"optimizer.name": "muon", "checkpoint.keep_weights": True}
    plain = in_ranks.together(2, settings, tmp_path / "plain")
    record, losses = in_ranks.together(2, settings | SPECTRA, tmp_path / "two")
    assert (record.metrics, losses) == (plain[0].metrics, plain[1])
    rows = rows_of(tmp_path / "two", record.key)
    state, _ = load_weights(Store(tmp_path / "two").files(record.key))
    measured = layers.measure(state)
    names = [layer.name for layer in measured]
    assert [row["layer"] for row in rows] == 6 * names  # of updates at 1, 4, 8 and of weights at 3, 6, 8
    last = [row["alpha"] for row in rows if row["step"] == 8 and "alpha" in row]
    assert last == pytest.approx([layer.alpha for layer in measured], rel=1e-5)
    for row in rows:
        assert "alpha" in row or row["update"][:24] == pytest.approx([1] * 24, abs=0.3)


def test_steps_that_are_watched_are_not_timed(tmp_path, tiny, monkeypatch):
    settings = tiny | {"optimizer.name": "muon", "steps": 20, "log_every": 5}
    plain, _ = finish(resolve_config(settings), tmp_path / "plain")
    record, _ = recorded(tmp_path / "watched", settings | {"spectra.updates": [0, 0.5, 1]})
    assert record.timing["steps"] == plain.timing["steps"] - 2  # one is in the warm-up


def test_weights_that_are_not_finite_do_not_stop_a_run(tmp_path, tiny):
    settings = tiny | SPECTRA | {"optimizer.name": "sgdm", "optimizer.lr": 1e38}
    record, _ = finish(resolve_config(settings), tmp_path)
    assert record.status == "diverged"


def test_a_damaged_file_is_reported(tmp_path, tiny):
    record, _ = finish(resolve_config(tiny | {"spectra.final": True}), tmp_path)
    files = Store(tmp_path).files(record.key)
    assert find_contradiction(files.path, record) is None
    whole = files.spectra.read_text()
    files.spectra.write_text(whole + '{"step": 9')
    assert find_contradiction(files.path, record) == Note("spectra_damaged")
    files.spectra.write_text(whole + '{"step": 9}\n')
    differ = Note("steps_differ", record=8, file="spectra.jsonl", other=9)
    assert find_contradiction(files.path, record) == differ
    os.unlink(files.spectra)
    assert find_contradiction(files.path, record) == Note("spectra_incomplete")


@pytest.mark.parametrize(
    ("setting", "value", "sentence"),
    [
        ("spectra.updates", [0, 2], r"spectra.updates must be a list of numbers in \[0, 1\], got \[0, 2\]"),
        ("spectra.updates", 0.5, "must be a list of numbers"),
        ("spectra.updates", ["a"], "must be a list of numbers"),
        ("spectra.method", "hill", "must be one of hill_mid, ks, got 'hill'"),
        ("spectra.layers", "head", "must be one of hidden, all"),
        ("spectra.every", -1, "must be a whole number >= 0"),
        ("spectra.update", [0], "did you mean 'spectra.updates'"),
    ],
)
def test_mistakes_end_with_one_sentence(tiny, setting, value, sentence):
    with pytest.raises(UsageError, match=sentence):
        resolve_config(tiny | {setting: value})


def test_random_numbers_of_the_run_stay(tmp_path, tiny):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    layers.measure({"w": torch.ones(8, 8)}, random_baseline=True)
    assert torch.equal(torch.get_rng_state(), before)
