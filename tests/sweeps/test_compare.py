"""`htbench compare`: from a class in a file, in an otherwise empty folder, to a table."""

import re

import pytest
import yaml

from htbench.harness import cli, tasks
from htbench.harness.config import parts, settings
from htbench.harness.store import Store
from htbench.harness.store.points import is_tuned, read_points
from htbench.harness.system.environment import HOME
from htbench.optimizers.zoo.registry import spec as row_of
from htbench.sweeps import compare
from htbench.sweeps.compare import FULL, QUICK, USUAL, WORKLOADS, Budget, Comparison
from htbench.sweeps.spec import sweep_file
from tests.helpers.own_parts import optimizer

OWN = "sign_to_compare:SignMomentum"
OTHERS = """
import torch


class NoOptimizer:
    pass


class Raises(torch.optim.SGD):
    def step(self, closure=None):
        raise RuntimeError("shapes differ")


class MakesNan(torch.optim.SGD):
    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            p.data.fill_(torch.nan)


class NoClosure(torch.optim.SGD):
    def step(self, closure=None):
        super().step()


class Far(torch.optim.AdamW):
    def __init__(self, params, lr=0.02, weight_decay=0.0):
        super().__init__(params, lr=lr, weight_decay=weight_decay)

    @torch.no_grad()
    def step(self, closure=None):
        before = [[p.clone() for p in group["params"]] for group in self.param_groups]
        super().step(closure)
        for group, weights in zip(self.param_groups, before):
            for p, old in zip(group["params"], weights):
                p.lerp_(old, -49)


class ThreeDecays(torch.optim.SGD):
    def __init__(self, params, lr=0.1, weight_decay=0.0):
        super().__init__(params, lr=lr, weight_decay=3 * weight_decay)


class Needs(torch.optim.SGD):
    def __init__(self, params, lr, rank):
        super().__init__(params, lr=lr)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder of somebody new."""
    (tmp_path / "sign_to_compare.py").write_text(optimizer())
    (tmp_path / "others_of_mine.py").write_text(OTHERS)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    parts.search_no_more()


def written(folder):
    return sorted(path.name for path in folder.glob("*.yaml"))


def test_one_command_checks_tunes_and_answers_and_the_same_goes_on(folder, monkeypatch, capfd):
    monkeypatch.setattr(compare, "QUICK", Budget("quick", 4, 1))
    words = ["compare", OWN, "--quick", "--task", "digits", "--against", "sgdm", "steps=2", "--workers", "2"]
    assert cli.main(words) == 0
    shown = capfd.readouterr()
    assert f"{OWN} passes: all 13 properties hold" in shown.err
    assert "at most 10 runs, about " in shown.err and "with 2 at a time" in shown.err
    assert shown.err.index("at most 10 runs") < shown.err.index("$ htbench sweep run"), "the time comes first"
    (name,) = written(folder)
    assert name == "compare-SignMomentum-digits-quick.yaml" and "steps: 2\n" in (folder / name).read_text()
    points = read_points(folder / "store", name.removesuffix(".yaml"))
    assert [(point.block, point.stage) for point in points].count(("SignMomentum", "search")) == 4
    assert len(points) == len(Store(folder / "store").records([point.key for point in points])) == 10
    assert OWN in shown.out and "sgdm" in shown.out and "1 fresh seed" in shown.out
    assert not any(words in shown.out for words in ("not the default", "in all rows,")), "it wrote them"

    assert cli.main(words) == 0
    again = capfd.readouterr()
    assert again.out == shown.out and "at most" not in again.err, "nothing is left to train"

    (folder / name).write_text((folder / name).read_text().replace("seeds: 1}", "seeds: 2}"))
    assert cli.main(words) == 0
    more = capfd.readouterr()
    assert f"{name} was edited" in more.err and "2 fresh seeds" in more.out


@pytest.mark.parametrize("task", WORKLOADS)
def test_what_it_fixes_is_a_default_or_usual(folder, task):
    parts.allow([OWN])
    made = yaml.safe_load(Comparison(OWN, ["adamw", "muon"], task, QUICK).to_yaml())
    for block in made["blocks"]:
        for name, value in {**made["base"], **block["set"]}.items():
            if is_tuned(name):
                assert value in settings.USUAL.get(name, ())


@pytest.mark.parametrize("budget", [QUICK, USUAL])
@pytest.mark.parametrize("task", WORKLOADS)
def test_every_optimizer_gets_the_same_but_for_its_own_hyperparameters(folder, budget, task):
    parts.allow([OWN])
    wanted = Comparison(OWN, ["adamw", "muon"], task, budget)
    path = folder / f"{wanted.name}.yaml"
    path.write_text(wanted.to_yaml())
    loaded = sweep_file.load(path)
    assert loaded.search.mode == "refine" and loaded.search.trials == budget.trials
    assert loaded.fresh_seeds == budget.seeds and loaded.name == path.stem
    rates = {block.name: block.space["optimizer.lr"] for block in loaded.blocks}
    assert rates["SignMomentum"] == [0.0015, 0.003, 0.006, 0.012], "octaves around its default"
    assert all(
        high == pytest.approx(2 * low)
        for one in rates.values()
        for low, high in zip(one, one[1:], strict=False)
    )
    others = {block.name: {*block.space} - {"optimizer.lr"} for block in loaded.blocks}
    if budget is QUICK:
        assert not any(others.values())
        return
    assert others == {
        "SignMomentum": {"optimizer.beta"},
        "adamw": {"optimizer.betas", "optimizer.weight_decay"},
        "muon": {"optimizer.momentum", "optimizer.weight_decay"},
    }
    adamw = next(block for block in loaded.blocks if block.name == "adamw").space
    assert row_of("adamw").weight_decay.default in adamw["optimizer.weight_decay"], "the default is tried"
    assert len(adamw["optimizer.lr"]) * 2 * 2 < budget.trials, "rounds follow the first"


def test_rates_begin_where_a_class_moves_weights_as_far_as_a_rule_of_ours(folder):
    parts.allow(["others_of_mine:Far", "others_of_mine:NoClosure"])
    far, grows = (
        Comparison(f"others_of_mine:{name}", ["adamw"], "pydocs", QUICK) for name in ("Far", "NoClosure")
    )
    start = far.find_start("others_of_mine:Far")
    adamw = tasks.spec("pydocs").adamw_lr
    assert start.peer == "adamw" and start.default == 0.02
    assert start.rate == pytest.approx(adamw / 50, rel=0.05)
    block, rival = yaml.safe_load(far.to_yaml())["blocks"]
    assert block["space"]["optimizer.lr"][1] == start.rate and rival["space"]["optimizer.lr"][1] == adamw
    prodigy = "htbench.optimizers.prodigy:Prodigy"  # its steps grow until it has found its rate
    assert compare.find_start(prodigy, "pydocs", ()).peer == ""
    assert far.find_start("adamw").peer == "" == grows.find_start("others_of_mine:NoClosure").peer


def test_the_full_budget_is_a_block_more_in_the_ladder(folder):
    parts.allow([OWN, "torch.optim:RAdam"])
    path = folder / "full.yaml"
    for name, own in (
        (OWN, {"optimizer.lr"}),
        ("torch.optim:RAdam", {"optimizer.lr", "optimizer.weight_decay"}),
    ):
        theirs = sweep_file.load(HOME / "sweeps" / "ladder" / "ladder-s1.yaml")
        wanted = Comparison(name, [block.name for block in theirs.blocks], "pydocs", FULL)
        path.write_text(wanted.to_yaml())
        loaded = sweep_file.load(path)
        assert loaded.blocks[1:] == theirs.blocks, "their runs are those of the ladder"
        assert (loaded.base, loaded.seeds, loaded.fresh_seeds) == (
            theirs.base,
            theirs.seeds,
            theirs.fresh_seeds,
        )
        assert loaded.search == theirs.search and len(loaded.blocks[0].space["optimizer.lr"]) == 5
        assert {*loaded.blocks[0].space} == own, "weight decay as the others, where it has one"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["others_of_mine:NoOptimizer"], "a subclass of torch.optim.Optimizer, not the class NoOptimizer"),
        (["nowhere:MyOpt"], "there is no module 'nowhere'"),
        (["sign_to_compare:SignMomentun"], "did you mean 'SignMomentum'?"),
        (["others_of_mine:Needs"], "needs 'rank', which has no default; give it as optimizer.rank=..."),
        ([OWN, "--against", "muom"], "did you mean muon"),
        ([OWN, "--against", "muon,muon"], "each once and none called like it, not 'muon, muon'"),
        ([OWN, "--against", ","], "--against must name rivals"),
        ([OWN, "--task", "didgits"], "did you mean 'digits'?"),
        ([OWN, "--task", "c4", "steps=5"], "'c4' needs model, such as model="),
        ([OWN, "--full", "--against", "sgdm"], "on pydocs against its rules; it takes neither --against nor"),
        ([OWN, "optimizer.bta=0.9"], "has no hyperparameter 'bta'; did you mean beta?"),
        ([OWN, "stepz=9"], "Unknown setting 'stepz' in base; did you mean 'steps'?"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_sentence_and_leaves_no_file(folder, capfd, words, sentence):
    assert cli.main(["compare", *words]) == 2
    err = capfd.readouterr().err.replace("\n", " ")
    assert sentence in err and "Traceback" not in err
    assert written(folder) == [] and not (folder / "store").exists()


def test_a_class_that_raises_is_sent_back(folder, capfd):
    assert cli.main(["compare", "others_of_mine:Raises"]) == 1
    shown = capfd.readouterr()
    once = re.compile(r"RuntimeError: shapes differ \(\S*others_of_mine\.py:\d+\)")
    assert len(once.findall(shown.out)) == 1 and shown.out.startswith("others_of_mine:Raises fails: ")
    assert re.search(f"can't be compared: {once.pattern}; correct it", shown.err)
    assert written(folder) == []


def test_a_class_whose_steps_make_nan_is_sent_back_with_that_and_nothing_that_follows_from_it(folder, capfd):
    assert cli.main(["compare", "others_of_mine:MakesNan"]) == 1
    shown = capfd.readouterr()
    assert "can't be compared: with no lr of" in shown.err and "make weights that are not finite" in shown.err
    for untrue in ("end with different weights", "takes other steps", 'although "lr" is 0', "not close"):
        assert untrue not in shown.out


def test_what_would_mislead_is_told_of_a_class_from_outside_and_of_a_rival(folder, monkeypatch, capfd):
    monkeypatch.setattr(compare, "_say_time", lambda args, path: None)
    monkeypatch.setattr(compare, "do_sweep_step", lambda *args, **given: 0)
    monkeypatch.setattr(compare, "do_step", lambda words, work: 0)
    words = ["compare", "others_of_mine:ThreeDecays", "--against", "muon,polargrad", "--task", "digits"]
    assert cli.main(words) == 0
    told = capfd.readouterr().err.split("mind ")
    assert len(told) == 3, "nothing of muon"
    assert "others_of_mine:ThreeDecays: " in told[0] and told[1].startswith("the decay: a step shrinks")
    assert "polargrad: " in told[1] and told[2].startswith("the gradients: ")


def test_a_class_with_another_fault_is_compared_and_the_fault_told(folder, monkeypatch, capfd):
    steps = []
    monkeypatch.setattr(compare, "_say_time", lambda args, path: None)
    monkeypatch.setattr(
        compare, "do_sweep_step", lambda args, action, words, **given: steps.append(words) or 1
    )
    monkeypatch.setattr(compare, "do_step", lambda words, work: steps.append(words) or 0)
    assert cli.main(["compare", "others_of_mine:NoClosure"]) == 1, (
        "a run has failed; the table has the others"
    )
    shown = capfd.readouterr()
    assert "evaluates a closure once" in shown.out and "is compared all the same" in shown.err
    assert steps == [["compare-NoClosure-pydocs.yaml"], ["table", "main_result", "compare-NoClosure-pydocs"]]
