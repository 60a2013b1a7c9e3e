"""`htbench zoo`, `htbench models` and `htbench tasks` say what the registries say."""

import json
import re

import pytest

from htbench import models
from htbench.harness import tasks
from htbench.harness.cli import main
from htbench.harness.commands.data import PREPARED
from htbench.optimizers import ZOO
from tests.helpers.json_fields import promised, read


def test_zoo_json_is_the_registry(capsys):
    assert main(["zoo", "--json"]) == 0
    found = read(capsys.readouterr().out)
    promised("zoo", found)
    rows = {row["name"]: row for row in found}
    assert list(rows) == list(ZOO)
    for name, spec in ZOO.items():
        row = rows[name]
        assert (row["family"], row["paper"], row["url"]) == (spec.family, spec.paper, spec.url)
        assert (row["fixed"], row["has_aux"], row["revision"]) == (
            dict(spec.fixed),
            spec.has_aux,
            spec.revision,
        )
        params = {"lr": spec.lr, "weight_decay": spec.weight_decay} | dict(spec.params)
        found = {"lr": row["lr"], "weight_decay": row["weight_decay"]} | row["hyper"]
        assert found.keys() == params.keys()
        for key, param in params.items():
            default = list(param.default) if isinstance(param.default, tuple) else param.default
            assert (found[key]["default"], found[key]["allowed"]) == (default, param.allowed())


def test_zoo_shows_every_row_and_each_its_hyperparameters(capsys):
    assert main(["zoo"]) == 0
    table = capsys.readouterr().out.partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in table] == ["name", *ZOO]
    for name, row in ZOO.items():
        assert main(["zoo", name]) == 0
        table, _, below = capsys.readouterr().out.partition("\n\n")
        assert [line.split()[0] for line in table.splitlines()] == ["name", "lr", "weight_decay", *row.params]
        assert row.paper in below and row.state in below


def test_one_of_the_zoo_is_named_or_refused(capsys):
    assert main(["zoo", "htmuon", "--json"]) == 0
    assert [row["name"] for row in read(capsys.readouterr().out)] == ["htmuon"]
    assert main(["zoo", "htmuno"]) == 2
    assert "did you mean htmuon" in capsys.readouterr().err


def test_models_are_those_of_the_registry_with_exact_counts(capsys):
    assert main(["models", "--json"]) == 0
    rows = read(capsys.readouterr().out)
    promised("models", rows)
    assert [row["name"] for row in rows] == list(models.SIZES)
    for row in rows:
        spec = models.spec(row["name"])
        assert (row["kind"], row["revision"]) == (spec.kind, spec.revision)
        assert row["settings"] == json.loads(json.dumps(spec.settings))
        assert row["parameters"] == models.count_parameters(row["name"])
    assert main(["models"]) == 0
    header, *lines = capsys.readouterr().out.partition("\n\n")[0].splitlines()
    counts = {row["name"]: f"{row['parameters']:,}" for row in rows}
    assert {line.split()[0]: line.split()[2] for line in lines} == counts
    end = header.index("parameters") + len("parameters")
    assert all(line[end - 1].isdigit() and line[end] == " " for line in lines)  # figures stand under figures


def test_tasks_say_which_data_must_be_fetched(capsys):
    assert main(["tasks", "--json"]) == 0
    rows = read(capsys.readouterr().out)
    promised("tasks", rows)
    assert [row["name"] for row in rows] == list(tasks.TASKS)
    fetched = {row["prepare"].split()[-1] for row in rows if row["prepare"]}
    assert fetched == set(PREPARED)
    assert all(row["about"] for row in rows)
    assert main(["tasks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert {line.split()[0] for line in lines if line.endswith("to fetch")} == fetched


NEEDS = """
import torch


class Needs(torch.optim.SGD):
    def __init__(self, params, radius, lr=0.1):
        if radius < 0:
            raise RuntimeError("below 0")
        super().__init__(params, lr=lr)
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "radius has no default and must be given"),
        (["radius=-1"], "RuntimeError: below 0"),
        (["radius=1", "radus=2"], "no hyperparameter 'radus'; did you mean radius?"),
        (["radius"], "'radius' is not of the form key=value"),
    ],
)
def test_a_class_that_cannot_be_built_is_one_sentence(words, said, tmp_path, monkeypatch, capsys):
    (tmp_path / "my_needs.py").write_text(NEEDS)
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["zoo", "--check", "my_needs:Needs", *words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and said in err


def list_faults(capsys):
    document = read(capsys.readouterr().out)
    promised("zoo --check", document)
    return {name: why for name, why in document.items() if why and name != "measured"}


MATRICES = """
import torch


class Matrices(torch.optim.SGD):  # it has no state, but entries for it
    def step(self, closure=None):
        if any(p.ndim != 2 for group in self.param_groups for p in group["params"]):
            raise ValueError("matrices only")
        return super().step(closure)
"""


def test_a_check_divides_parameters_as_a_run_does(tmp_path, monkeypatch, capsys):
    (tmp_path / "my_matrices.py").write_text(MATRICES)
    monkeypatch.syspath_prepend(tmp_path)
    check = ["zoo", "--json", "--check"]
    for name in ("my_matrices:Matrices", "torch.optim:Muon"):  # which refuse kernels in a step, and at once
        assert main([*check, name, "routing=hidden"]) == 1
        assert list_faults(capsys).keys() == {"takes_shapes", "trains"}
    assert main([*check, "my_matrices:Matrices", "routing=matrix", "groups.kernels.optimizer=adamw"]) == 1
    wrong = list_faults(capsys)
    assert wrong.keys() == {"takes_shapes"}
    assert re.fullmatch(r"ValueError: matrices only \(.*my_\w+\.py:8\)", wrong["takes_shapes"])


FEW = """
import torch


class Few(torch.optim.SGD):
    def __init__(self, params, lr=0.1):
        super().__init__(params, lr=lr)
        if sum(len(group["params"]) for group in self.param_groups) > 9:
            raise RuntimeError("too many")
"""


def test_a_check_makes_steps_of_a_real_run(tmp_path, monkeypatch, capsys):
    (tmp_path / "my_few.py").write_text(FEW)
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["zoo", "--check", "my_few:Few", "--json"]) == 1
    wrong = list_faults(capsys)
    assert list(wrong) == ["trains"] and "RuntimeError: too many" in wrong["trains"]


FAR = """
import torch


class Far(torch.optim.SGD):
    def __init__(self, params, lr=0.1, weight_decay=0.0):
        super().__init__(params, lr=lr, weight_decay=3 * weight_decay)
"""


def test_a_check_says_what_would_mislead_and_it_is_no_fault(tmp_path, monkeypatch, capsys):
    (tmp_path / "my_far.py").write_text(FAR)
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["zoo", "--check", "my_far:Far", "--json"]) == 0
    document = read(capsys.readouterr().out)
    promised("zoo --check", document)
    assert document["measured"]["decay"]["idle"] == pytest.approx(3)
    assert {moved["rule"] for moved in document["measured"]["movements"]} == {"Far"}, "vectors, too"
    assert main(["zoo", "--check", "my_far:Far"]) == 0
    shown = capsys.readouterr().out
    assert "mind the decay: a step shrinks weights by 3 lr x weight_decay" in shown
    assert "128 x 64" in shown and "32 x 8 x 3 x 3" in shown
