"""`htbench bench maps`: every map is measured, against the right truth, on the right matrices."""

import json

import pytest
import torch

from harness import cli
from harness.bench import maps
from optimizers import SPECTRAL
from tests.helpers.json_fields import promised

torch.set_num_threads(1)

P = 0.125


@pytest.fixture(scope="module")
def errors():
    return {(one.map, one.matrix): one for one in maps.on_synthetic(maps.synthetic(48, 80), P)}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A store whose data cache is filled once."""
    return tmp_path_factory.mktemp("store")


def test_every_map_is_measured_and_no_label_twice():
    # aurora changes the singular vectors, too: there is no U f(S) V^T to compare it with
    assert {one.name for one in maps.MEASURED} == SPECTRAL.keys() - {"aurora"}
    assert len({one.label for one in maps.MEASURED}) == len(maps.MEASURED)


def test_the_spectra_are_what_their_names_say():
    matrices = maps.synthetic(48, 80)
    values = {name: torch.linalg.svdvals(matrix.double()) for name, matrix in matrices.items()}
    k = torch.arange(1, 49, dtype=torch.float64)
    for exponent in (0.5, 1, 2):
        torch.testing.assert_close(values[f"k^-{exponent:g}"], k**-exponent, rtol=1e-3, atol=1e-7)
    assert matrices["wide"].shape == (48, 80)
    assert values["rank16"][15] > 3 * values["rank16"][16]
    assert torch.equal(matrices["gauss"], maps.synthetic(48, 80)["gauss"])


def test_exact_maps_are_exact(errors):
    for label in ("svd_power", "gram_power f64", "rank_power"):
        for matrix in ("gauss", "wide", "k^-0.5", "k^-1"):
            assert errors[label, matrix].error < 1e-5
            assert errors[label, matrix].cosine == pytest.approx(1)


def test_cheaper_maps_are_as_far_as_they_are(errors):
    for matrix in ("wide", "k^-0.5"):
        found = {label: one.error for (label, at), one in errors.items() if at == matrix}
        assert found["mix k7_accurate"] < found["mix k6"] < 0.03
        assert found["mix k6"] < found["newton_schulz"] < 0.3
        assert found["mix k5"] < found["ns_root right"] < 0.6
        assert found["ns_root right"] == pytest.approx(found["ns_root small"], abs=1e-3)
        assert found["mix k7_accurate"] < found["mix k7_accurate bf16"] < 0.05


def test_the_maps_of_others_are_what_their_authors_say_but_dynmuon(errors):
    """Where all singular values are large; DynMuon's is no power of values far below the largest."""
    for matrix in ("wide", "k^-0.5"):
        for label in ("soft_muon", "contra_muon", "soft_polar"):
            assert errors[label, matrix].error < 0.02
            assert errors[label, matrix].cosine == pytest.approx(1, abs=1e-3)
        assert errors["dynmuon p=0.25", matrix].error > 0.1


def test_a_map_with_memory_warms_up(errors):
    (stream,) = [one for one in maps.MEASURED if one.name == "stream_power"]
    matrix = maps.synthetic(48, 80)["gauss"]
    cold, _ = stream.score(stream(matrix, P, {}), maps.factors_of(matrix), P)
    assert errors["stream_power", "gauss"].error < cold / 3


def test_error_and_cosine():
    one, scaled = maps.Map("x", "svd_power"), maps.Map("x", "newton_schulz", scaled=True)
    factors = maps.factors_of(torch.diag(torch.tensor([4.0, 1.0])))  # to the power 1/2: diag(2, 1)
    found = torch.diag(torch.tensor([2.0, 0.0]))
    assert one.score(found, factors, 0.5) == pytest.approx(((1 / 5) ** 0.5, 4 / (2 * 5**0.5)))
    assert scaled.score(7 * found, factors, 0.5) == pytest.approx(((1 / 5) ** 0.5, 4 / (2 * 5**0.5)))
    assert one.score(2 * torch.diag(torch.tensor([2.0, 1.0])), factors, 0.5) == pytest.approx((1, 1))


@pytest.mark.parametrize(("steps", "at"), [(0, []), (1, [1]), (4, [1, 2, 4]), (100, [1, 10, 50, 100])])
def test_a_run_is_looked_at_four_times(steps, at):
    assert maps.looks(steps) == at


def test_captured_is_what_the_map_of_muon_gets(root, monkeypatch):
    seen = []

    def spy(M, state, group, map_=SPECTRAL["newton_schulz"]):
        seen.extend(M.clone().reshape(-1, *M.shape[-2:]))  # a matrix or a stack of them
        return map_(M, state, group)

    monkeypatch.setitem(SPECTRAL, "newton_schulz", spy)
    taken = [matrix for step in maps.captured(2, root / "cache") for matrix in step.values()]
    assert len(taken) == len(seen) == 2 * 16
    for matrix in taken:
        assert any(torch.equal(matrix, one) for one in seen)


def test_the_command_prints_json_and_tables(root, capsys, monkeypatch):
    monkeypatch.setattr(maps, "SYNTHETIC", {"n": 24, "wide": 40})
    words = ["maps", "--captured", "3"]
    assert cli.main(["bench", *words, "--root", str(root), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    promised("bench maps", report)
    places = [*report["shapes"], "t=1", "t=3"]
    labels = [one.label for one in maps.MEASURED]
    assert {(one["map"], one["matrix"]) for one in report["errors"]} == {
        (label, place) for label in labels for place in places
    }
    assert report["p"] == P and report["captured"]["steps"] == 3
    assert all(len(one["each"]) == 16 for one in report["errors"] if one["matrix"] == "t=3")

    assert cli.main(["bench", "--root", str(root), *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines if line.startswith(("error  ", "cosine  ", "mix"))) <= 110
    for value in ("error", "cosine"):
        (start,) = [i for i, line in enumerate(lines) if line.split() == [value, *places]]
        shown = lines[start + 1 : start + 1 + len(labels)]
        assert [" ".join(line.split()[: -len(places)]) for line in shown] == labels


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--captured", "-1"], "--captured must be at least 0, not -1"),
        (["--p", "1.5"], "--p must be a number between 0 and 1, not 1.5"),
    ],
)
def test_bad_words_end_the_command(words, sentence, tmp_path, capsys):
    assert cli.main(["bench", "maps", *words, "--root", str(tmp_path)]) == 2
    assert sentence in capsys.readouterr().err
