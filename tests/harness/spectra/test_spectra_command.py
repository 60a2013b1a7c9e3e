"""`htbench spectra` as people call it."""

import json
import re

import pytest
import torch
from safetensors.torch import save_file, save_model

from htbench import models
from htbench.harness import cli
from tests.helpers.command import TINY
from tests.helpers.json_fields import promised, read

torch.set_num_threads(1)


@pytest.fixture
def spectra(tmp_path, capsys):
    """Call the command; returns its exit status and what it prints on stdout and stderr."""

    def call(*words):
        status = cli.main(["spectra", "--root", str(tmp_path / "store"), *map(str, words)])
        return status, *capsys.readouterr()

    return call


@pytest.fixture
def files(tmp_path):
    """Three models: two of the same shapes."""
    for name, model, seed in (("a", "vit-nano", 0), ("b", "vit-nano", 1), ("c", "gpt2-nano", 0)):
        torch.manual_seed(seed)
        save_model(models.build(model), tmp_path / f"{name}.safetensors")
    return tmp_path


def lines(table, first):
    return [line for line in table.splitlines() if line.startswith(str(first))]


def head(table):
    (line,) = lines(table, "layer ")
    return re.split("  +", line.strip())


def test_one_model(spectra, files):
    status, out, err = spectra(files / "a.safetensors")
    assert (status, err) == (0, "")
    assert head(out) == "layer kind shape alpha D tail sigma_max fro".split() + ["stable rank", "flags"]
    assert len(lines(out, "blocks.")) == 8 and len(lines(out, "patches")) == 1
    assert "random" in head(spectra(files / "a.safetensors", "--random-baseline", "--include", "*.qkv.*")[1])


def test_models_side_by_side(spectra, files):
    a, b, c = (files / f"{name}.safetensors" for name in "abc")
    status, out, _ = spectra(a, b)
    assert status == 0 and f"alpha {a}" in out and f"alpha {b}" in out
    assert len(lines(out, "blocks.0.attn.qkv.weight")) == 1
    assert [line.split()[1] for line in lines(out, a)][-1] == "all"
    _, unlike, _ = spectra(a, c)
    assert re.search(r"^a +small_n", unlike, re.MULTILINE), "what is wrong with a fit is told below"
    assert "The shapes differ" in unlike and "  all  " not in unlike
    _, both, _ = spectra(a, a)
    assert both == spectra(a)[1]


def test_small_layers_are_counted_when_asked_for(spectra, files):
    _, out, _ = spectra(files / "c.safetensors", "--json")
    promised("spectra", read(out))
    (row,) = (row for row in json.loads(out)["summary"] if row["kind"] == "all")
    assert (row["alpha_mean"], row["alpha_n"], row["alpha_n_excluded"]) == (None, 0, 8)
    _, out, _ = spectra(files / "c.safetensors", "--json", "--small")
    assert json.loads(out)["summary"][-1]["alpha_n"] == 8


def test_runs_of_the_store(spectra, tmp_path, capsys):
    words = [f"{name}={value}" for name, value in {**TINY, "steps": 2}.items()]
    root = ["--root", str(tmp_path / "store")]
    assert cli.main(["run", *root, *words, "checkpoint.keep_weights=true", "--quiet"]) == 0
    capsys.readouterr()
    (folder,) = (tmp_path / "store" / "runs").glob("*/*")
    status, out, _ = spectra(folder.name[:5], "--json")
    (first, *_) = rows = json.loads(out)["layers"]
    assert status == 0 and len(rows) == 9
    assert [first[name] for name in ("place", "model", "optimizer", "seed", "step", "kind")] == [
        folder.name[:5], "resnet-nano", "sgdm", 0, 2, "conv"
    ]  # fmt: skip
    _, by_folder, _ = spectra(folder, "--json")
    assert by_folder.replace(str(folder), folder.name[:5]) == out
    (folder / "weights.pt").unlink()
    assert spectra(folder.name)[0] == 2
    assert "has kept no weights" in spectra(folder)[2]


def test_mistakes_are_one_sentence(spectra, files):
    (files / "broken.safetensors").write_bytes(b"{")
    save_file({"norm.weight": torch.ones(3)}, files / "vectors.safetensors")
    (files / "empty").mkdir()
    a = files / "a.safetensors"
    for words, said in (
        ([files / "none.pt"], "There is no file or folder"),
        (["nowhere"], "There is no file or folder 'nowhere'"),
        (["abc"], "has the key 'abc'"),
        ([files / "empty"], "is neither the folder of a run nor a file of weights"),
        ([files / "broken.safetensors"], "can't be read"),
        ([files / "vectors.safetensors"], "has no matrices"),
        ([a, "--method", "hill"], "invalid choice"),
        ([a, "--exclude", "*"], "is left by --include and --exclude"),
    ):
        status, out, err = spectra(*words)
        assert (status, out) == (2, ""), words
        assert said in err and err.startswith("htbench: ") and err.count("\n") == 1, err
