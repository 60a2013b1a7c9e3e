"""`htbench bench spectra`: that the floor is one, and that the figures are what they are called."""

import json

import numpy as np
import pytest
import torch

import models
from harness import cli
from harness.bench import spectra
from harness.bench.machine import in_fresh_process
from harness.spectra.selection import chosen
from tests.helpers.json_fields import promised

torch.set_num_threads(1)


def test_the_floor_and_the_methods_take_the_same_layers(monkeypatch):
    measured = []
    monkeypatch.setattr(spectra, "spectrum", lambda layer, method: measured.append((layer.name, method)))
    monkeypatch.setattr(spectra, "_floor", lambda layer: measured.append((layer.name, "floor")) or 1.0)
    layers = chosen(models.build("llama-nano"), "all")
    times = spectra._round(layers)
    assert measured == [(layer.name, what) for layer in layers for what in ("floor", "hill_mid", "ks")]
    assert times[0] == len(layers) and (times[1:] >= 0).all()


def test_ratios_are_of_the_whole_set(monkeypatch):
    rounds = iter([np.array([9.0, 9.0, 9.0]), *(np.array([2.0, 2.2, 2.42]) for _ in range(6))])
    monkeypatch.setattr(spectra, "_round", lambda layers: next(rounds))
    monkeypatch.setattr(spectra.time, "process_time", lambda: 0.0)
    row = spectra.times_of("llama-nano", "hidden", 6)
    assert (row.include, row.layers, row.floor.median, row.floor.n) == ("hidden", 14, 2000.0, 6)
    assert [ratio.median for ratio in row.ratios] == pytest.approx([1.1, 1.21, 1.1])
    assert [ratio.target for ratio in row.ratios] == [1.3, 1.3, 1.2]


def test_the_largest_layer_is_counted_in_float64():
    assert spectra.largest("llama-nano") == 8 * 320 * 48


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(spectra, "in_fresh_process", lambda memory_of, model, method: 123 * 2**20)
    words = ["bench", "spectra", "--root", str(tmp_path), "--model", "llama-nano", "--rounds", "6"]
    assert cli.main(words) == 0
    text = capsys.readouterr().out
    assert "ks / hill_mid" in text and "123 MiB" in text
    assert cli.main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    promised("bench spectra", found)
    assert [row["include"] for row in found["rows"]] == ["hidden", "all"]
    assert found["peak_bytes"] == {"hill_mid": 123 * 2**20, "ks": 123 * 2**20}
    assert cli.main(["bench", "spectra", "--rounds", "2"]) == 2
    assert cli.main(["bench", "spectra", "--model", "no-such"]) == 2


@pytest.mark.slow
def test_memory_stays_at_two_layers():
    """In a process of its own."""
    assert (
        0
        < in_fresh_process(spectra.memory_of, "llama-60m", "ks")
        < spectra.MOST_MEMORY * spectra.largest("llama-60m")
    )
