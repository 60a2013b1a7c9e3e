"""Edited code makes runs of its own; released code keeps its runs; what does not run does not count."""

import json
import shutil

import pytest

from htbench import models, optimizers
from htbench.harness import tasks
from htbench.harness.config import digest, revisions
from htbench.harness.config.key import resolved, run_key
from htbench.harness.config.names import flatten
from htbench.harness.config.settings import resolve_config, to_yaml
from htbench.harness.config.yaml_text import read_yaml
from htbench.harness.errors import UsageError
from htbench.harness.system.environment import HOME

DOCS = {"task": "pydocs", "model": "llama-nano", "steps": 100, "batch_size": 16, "optimizer.name": "sgdm"}
DIGITS = DOCS | {"task": "digits", "model": "resnet-nano", "batch_size": 64}


def rule(name, **hyper):
    return {"optimizer.name": name, **{f"optimizer.{key}": value for key, value in hyper.items()}}


@pytest.fixture
def edit(tmp_path, monkeypatch):
    """Edit a copy of the code in which the digests are then looked up."""
    for package in ("harness", "models", "optimizers"):
        shutil.copytree(HOME / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(digest, "HOME", tmp_path)

    def forget():
        revisions._edit.cache_clear()

    def edit(file, before, after):
        path = tmp_path / file
        text = path.read_text()
        assert text.count(before) >= 1
        path.write_text(text.replace(before, after))
        forget()

    forget()
    yield edit
    forget()


def test_the_released_digests_are_those_of_this_code():
    """If this fails: does the change alter numbers? Then raise the revision of what it alters. In any case
    run `python -m htbench.harness.config.revisions --write`."""
    assert json.loads(revisions.PLACE.read_text()) == revisions.release()


@pytest.mark.parametrize("name", optimizers.ZOO)
def test_released_code_is_at_its_released_revision(name):
    revision = optimizers.spec(name).revision
    assert resolve_config(DOCS | rule(name)).revisions == ({"optimizer": revision} if revision > 1 else {})


def test_every_module_is_either_watched_or_known_to_make_no_numbers():
    """If this fails, a module is new: does it make numbers? Then it belongs into `digest.NUMERIC`."""
    words = (
        "optimizers optimizers.adopt optimizers.cost optimizers.reach optimizers.states optimizers.watch "
        "optimizers.zoo "
        "optimizers.zoo.elementwise optimizers.zoo.grouped optimizers.zoo.outside optimizers.zoo.param "
        "optimizers.zoo.registry optimizers.zoo.same optimizers.zoo.spec optimizers.zoo.spectral "
        "optimizers.zoo.subspace models models.families models.registry harness.data harness.data.cache "
        "harness.data.copies harness.data.prepare harness.data.raw "
        "models.stacked optimizers.together"  # on a CPU the numbers of each run alone, which are compared
    )
    without = {f"htbench.{name}" for name in words.split()}
    folders = ("optimizers", "models", "harness/data")
    files = [path for folder in folders for path in (HOME / folder).rglob("*.py")]
    modules = {
        ".".join(("htbench", *path.relative_to(HOME).with_suffix("").parts)).removesuffix(".__init__")
        for path in files
    }
    watched = {name for name in modules if name in digest.NUMERIC}
    assert modules - watched == without


def test_every_part_of_ours_is_looked_up():
    for row in (*optimizers.ZOO.values(), *models.SIZES.values()):
        if not row.target.startswith("torch."):
            assert row.target.partition(":")[0] in digest.NUMERIC, row
    for row in tasks.TASKS.values():
        assert row.loader.partition(":")[0] in digest.NUMERIC, row
    assert digest.NUMERIC >= {*revisions._LOOP, revisions._ASSEMBLY}


def test_an_edited_optimizer_is_another_run_and_nothing_else_is(edit):
    settings = {name: DOCS | rule(name) for name in ("muon", "htmuon", "htmuon_mix", "adamw")}
    before = {name: run_key(resolve_config(one)) for name, one in settings.items()}
    edit("optimizers/spectral/mix_power.py", "return", "return 1.0 *")
    after = {name: resolve_config(one) for name, one in settings.items()}
    assert {name for name, one in after.items() if run_key(one) != before[name]} == {"htmuon_mix"}
    assert after["htmuon_mix"].revisions["optimizer"].startswith("1+")


def test_two_edits_are_two_runs_and_undoing_one_gives_the_released_run(edit):
    key = run_key(resolve_config(DOCS | rule("muon")))
    edit("optimizers/muon.py", "max(1, m / n)", "max(2, m / n)")
    first = run_key(resolve_config(DOCS | rule("muon")))
    edit("optimizers/muon.py", "max(2, m / n)", "max(3, m / n)")
    second = run_key(resolve_config(DOCS | rule("muon")))
    edit("optimizers/muon.py", "max(3, m / n)", "max(1, m / n)")
    assert len({key, first, second}) == 3 and run_key(resolve_config(DOCS | rule("muon"))) == key


@pytest.mark.parametrize(
    ("file", "before", "after", "part", "settings"),
    [
        ("models/llama.py", "INITIAL_STD = ", "INITIAL_STD = 2 * ", "model", DOCS),
        ("models/resnet.py", "F.relu", "F.gelu", "model", DIGITS),
        ("harness/train/learner.py", "set_to_none=True", "set_to_none=False", "loop", DOCS),
        ("harness/train/schedule.py", "0.5 * (1 + ", "0.25 * (2 + ", "loop", DOCS),
        ("harness/data/text.py", "- 1) // seq_len", "- 2) // seq_len", "task", DOCS),
        ("harness/data/order.py", "step * batch_size,", "step * batch_size + 0,", "task", DIGITS),
        ("optimizers/routing.py", "p.ndim >= 2", "p.ndim > 2", "optimizer", DOCS | rule("muon")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_part_that_makes_numbers_is_watched(edit, file, before, after, part, settings):
    edit(file, before, after)
    assert list(resolve_config(settings).revisions) == [part]


def test_what_python_does_not_execute_does_not_count(edit):
    edit("optimizers/muon.py", "Each takes its map", "Each one takes its map")
    edit("optimizers/muon.py", "Raises:", "Complains:")
    edit("optimizers/muon.py", "import math", "# a remark\nimport math")
    edit("optimizers/muon.py", "G: Tensor", "G: 'Tensor'")
    assert resolve_config(DOCS | rule("muon")).revisions == {}


def test_only_the_map_that_a_run_uses_counts(edit):
    edit("optimizers/spectral/newton_schulz.py", "QUINTIC = ", "QUINTIC = 1 * ")
    assert resolve_config(DOCS | rule("htmuon")).revisions == {}
    assert "1+" in resolve_config(DOCS | rule("htmuon", interval=5)).revisions["optimizer"]
    assert "1+" in resolve_config(DOCS | rule("muon")).revisions["optimizer"]


def test_a_config_of_other_code_is_refused_with_what_to_do(edit):
    made = resolve_config(DOCS | rule("muon"))
    resolved(made)
    edit("optimizers/muon.py", "max(1, m / n)", "max(2, m / n)")
    edited = resolve_config(DOCS | rule("muon"))
    resolved(edited)
    with pytest.raises(UsageError, match=r"optimizer has revision 1, here it is 1\+\w{8}; remove revisions"):
        resolved(made)


def test_a_stored_config_keeps_its_revisions(edit, tmp_path):
    edit("optimizers/muon.py", "max(1, m / n)", "max(2, m / n)")
    edited = resolve_config(DOCS | rule("muon"))
    (tmp_path / "config.yaml").write_text(to_yaml(edited))
    edit("optimizers/muon.py", "max(2, m / n)", "max(1, m / n)")
    assert resolve_config(flatten(read_yaml(tmp_path / "config.yaml"))) == edited


def test_code_that_is_no_python_is_told_in_a_sentence(edit):
    edit("optimizers/muon.py", "class Muon", "clas Muon")
    with pytest.raises(UsageError, match=r"muon.py' is no valid Python: invalid syntax in line"):
        resolve_config(DOCS | rule("muon"))


def test_code_that_a_server_has_read_is_read_again_once_it_is_edited(edit, tmp_path):
    digest.everything()
    reads = digest._read.cache_info().misses
    before = digest.digests(["htbench.optimizers.muon"])
    assert digest._read.cache_info().misses == reads, "a forked process reads nothing again"
    rule = tmp_path / "optimizers" / "muon.py"
    rule.write_text(rule.read_text().replace("max(1, m / n)", "max(4, m / n)"))
    assert digest.digests(["htbench.optimizers.muon"]) != before
