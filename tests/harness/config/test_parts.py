"""A user's own optimizer, model and task: how names resolve, what is read from them, what the key holds."""

import importlib
import itertools
import json
import textwrap

import pytest
import torch

from htbench import models, optimizers
from htbench.harness import tasks
from htbench.harness.cli import main
from htbench.harness.config import parts
from htbench.harness.config.key import run_key
from htbench.harness.config.names import flatten
from htbench.harness.config.settings import resolve_config, to_settings, to_yaml
from htbench.harness.config.yaml_text import read_yaml
from htbench.harness.errors import UsageError
from htbench.harness.store.points import Point
from htbench.harness.train.monitor import Monitor
from htbench.sweeps.run.execute import EXIT_ENDED, execute
from tests.helpers.json_fields import promised

_NUMBERS = itertools.count()
BASE = {"task": "digits", "model": "resnet-nano", "steps": 3, "batch_size": 16}
PLAIN = """
    import torch

    class Plain(torch.optim.Optimizer):
        def __init__(self, params, lr=0.5, power=2, sharp=False, word="a", pair=(0.9, 0.99), extra=None,
                     mixed=(None, 1.0), cut: float = 1, every: int = 10, call=print, **rest):
            super().__init__(params, {"lr": lr})

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        p -= group["lr"] * p.grad
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A user's folder on Python's path."""
    place = tmp_path / "user"
    place.mkdir()
    monkeypatch.syspath_prepend(place)
    return place


@pytest.fixture
def write(folder):
    """Write a module of the user; returns its name, which no other test has."""

    def write(text, name=None):
        name = name or f"part{next(_NUMBERS)}"
        path = folder / f"{name.replace('.', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return name

    return write


def of(name, **hyper):
    return resolve_config(
        BASE | {"optimizer.name": name} | {f"optimizer.{key}": value for key, value in hyper.items()}
    )


# --- optimizers ---


def test_hyperparameters_are_those_of_the_signature(write, tmp_path):
    name = f"{write(PLAIN)}:Plain"
    rule = of(name).optimizer
    assert (rule.lr, rule.weight_decay, rule.aux_lr, rule.routing) == (0.5, None, None, "released")
    assert rule.hyper == {
        **{"power": 2, "sharp": False, "word": "a", "pair": (0.9, 0.99), "extra": None},
        **{"mixed": (None, 1.0), "cut": 1.0, "every": 10},
    }
    given = {"power": 0.5, "sharp": "true", "pair": [0.1, "0.2"], "extra": [1, "b"], "every": 3.0}
    config = of(name, **given)
    assert (
        config.optimizer.hyper.items()
        >= {**{"power": 0.5, "sharp": True, "pair": (0.1, 0.2), "extra": (1, "b"), "every": 3}}.items()
    )
    path = tmp_path / "config.yaml"
    path.write_text(to_yaml(config))
    assert resolve_config(flatten(read_yaml(path))) == resolve_config(to_settings(config)) == config
    assert run_key(of(name, power=3)) == run_key(of(name, power="3.0")) != run_key(of(name))


def test_a_record_notes_the_defaults_of_constructors_and_nothing_of_ours(write):
    name = f"{write(PLAIN)}:Plain"
    noted = parts.described(of(name, power=3, routing="hidden"))["outside"]
    known = noted["defaults"]
    assert (known["optimizer.power"], known["optimizer.extra"], known["optimizer.lr"]) == (2, None, 0.5)
    assert known["optimizer.aux_lr"] == 0.03 and not noted["switches"] and json.dumps(noted)
    group = resolve_config(
        BASE | {"optimizer.groups.vectors.optimizer": name, "optimizer.groups.vectors.lr": 1}
    )
    assert parts.described(group)["outside"]["defaults"]["optimizer.groups.vectors.every"] == 10
    assert parts.described(of("muon")) == {}


def test_it_gets_all_trainable_parameters_and_its_settings():
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
    model[0].bias.requires_grad = False
    optimizer = optimizers.build("torch.optim:RAdam", model, lr=0.25, weight_decay=0.1, betas=[0.5, 0.75])
    (group,) = optimizer.param_groups
    assert type(optimizer) is torch.optim.RAdam and len(group["params"]) == 3
    assert (group["lr"], group["weight_decay"], group["betas"]) == (0.25, 0.1, (0.5, 0.75))


def test_an_argument_of_torch_that_our_rules_use_otherwise_reaches_the_class():
    model = torch.nn.Linear(3, 2)
    assert optimizers.build("torch.optim:AdamW", model, fused=True).param_groups[0]["fused"] is True


def test_a_rule_derived_from_ours_has_its_table(write):
    name = write("""
        from htbench.optimizers import Param, UpdateRule

        class Mine(UpdateRule):
            table = {
                "lr": Param(float, 0.1), "weight_decay": Param(float, 0.0), "b": Param(float, 0.5, low=0)
            }

            def __init__(self, params, **given):
                super().__init__(params, {name: p.default for name, p in self.table.items()} | given)

            def direction(self, G, state, group):
                return G * group["b"]
    """)
    assert of(f"{name}:Mine").optimizer.hyper == {"b": 0.5}
    with pytest.raises(UsageError, match=r"^b must be a finite number >= 0, got -1$"):
        of(f"{name}:Mine", b=-1)
    with pytest.raises(KeyError, match="^'c'$"):  # not in its table
        importlib.import_module(name).Mine([torch.nn.Parameter(torch.ones(2))], c=1)


@pytest.mark.parametrize(
    ("hyper", "sentence"),
    [
        ({"powr": 1}, r"^Unknown setting 'optimizer.powr' for part\d+:Plain; did you mean 'power'\?$"),
        ({"rest": 1}, r"^Unknown setting 'optimizer.rest' for"),
        ({"call": 1}, r"^Unknown setting 'optimizer.call' for"),
        ({"power": "x"}, r"^power must be a number, got 'x'$"),
        ({"sharp": 3}, r"^sharp must be true or false, got 3$"),
        ({"pair": [0.1]}, r"^pair must be 2 numbers, got \[0.1\]$"),
        ({"every": 0.5}, r"^every must be a whole number, got 0.5$"),
        ({"extra": {"a": 1}}, "Unknown setting|^extra must be a number, a word"),
        ({"weight_decay": 0.1}, r"^part\d+:Plain has no weight decay; remove optimizer.weight_decay=0.1.$"),
        ({"lr": -1}, r"^optimizer.lr must be a finite number > 0, got -1.0$"),
    ],
)
def test_wrong_hyperparameters_are_refused_in_one_sentence(write, hyper, sentence):
    with pytest.raises(UsageError, match=sentence):
        of(f"{write(PLAIN)}:Plain", **hyper)


def test_a_hyperparameter_without_default_must_be_given(write):
    name = write(PLAIN.replace("lr=0.5, power=2", "lr, power"))
    with pytest.raises(UsageError, match=r"^power has no default and must be given$"):
        of(f"{name}:Plain")
    assert of(f"{name}:Plain", power=1).optimizer.lr == 1e-3


@pytest.mark.parametrize(
    ("text", "attribute", "sentence"),
    [
        ("class A: pass", "A", r"must be a subclass of torch.optim.Optimizer, not the class A$"),
        ("a = 3", "a", r"must be a subclass of torch.optim.Optimizer, not of type int$"),
        ("Adan = 3", "Adam", r"the module 'part\d+' has no 'Adam'; did you mean 'Adan'\?$"),
        ("import torhc", "A", r"can't be imported: it needs 'torhc', which is missing$"),
        ("1 / 0", "A", r"can't be imported: ZeroDivisionError: division by zero$"),
        ("raise SystemExit(3)", "A", r"can't be imported: SystemExit: 3$"),
        ("def (", "A", r"can't be imported: SyntaxError: invalid syntax"),
        ("a = 3", "b c", r"must have the form module:Name"),
        (
            "from torch.optim import LBFGS",
            "LBFGS",
            r"needs 'closure', which a training loop does not give; .* such as torch.optim:AdamW$",
        ),
        ("from torch.optim import Optimizer", "Optimizer", r"takes no lr, which the schedule of a run sets$"),
    ],
)
def test_what_is_no_optimizer_is_refused_in_one_sentence(write, capsys, text, attribute, sentence):
    words = [f"{name}={value}" for name, value in BASE.items()]
    assert main(["run", *words, f"optimizer.name={write(text)}:{attribute}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    with pytest.raises(UsageError, match=sentence):
        raise UsageError(line)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "nosuchmodule:A",
            r"^'nosuchmodule:A' is not found: there is no module 'nosuchmodule' beside the file, ",
        ),
        ("adamm", r"unknown optimizer 'adamm'; did you mean adam"),
    ],
)
def test_an_unknown_name_is_refused_in_one_sentence(name, sentence):
    with pytest.raises(UsageError, match=sentence):
        of(name)


def test_an_entry_point_is_a_name(folder, write):
    module = write(PLAIN)
    info = folder / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[htbench.optimizers]\nplain_{module} = {module}:Plain\n")
    config = of(f"plain_{module}")
    assert config.optimizer.name == f"plain_{module}" and config.optimizer.hyper["power"] == 2
    assert config.revisions == of(f"{module}:Plain").revisions


# --- the code in the key ---


def word(module):
    parts.source_word.cache_clear()
    return parts.source_word(f"{module}:Plain")


def test_the_key_has_the_code_and_all_loose_code_that_it_imports(folder, write):
    package = f"pack{next(_NUMBERS)}"
    write("", f"{package}.__init__")
    helper = write("FACTOR = 1", f"{package}.helper")
    write("unrelated = 1", f"{package}.other")
    module = write(f"from .helper import FACTOR{PLAIN}".replace("\n    ", "\n"), f"{package}.opt")
    first = word(module)
    assert of(f"{module}:Plain").revisions == {"optimizer": first} and len(first) == 12

    def edited(name, before, after):
        path = folder / f"{name.replace('.', '/')}.py"
        path.write_text(path.read_text().replace(before, after))
        return word(module)

    assert edited(module, "from .helper", '"""A docstring."""\n# and a comment\nfrom .helper') == first
    assert edited(f"{package}.other", "1", "2") == first
    second = edited(helper, "1", "2")
    assert second != first != edited(module, 'group["lr"] *', '2 * group["lr"] *') != second
    assert edited(f"{package}.__init__", "", "import math") not in (first, second)


def test_an_import_that_names_another_class_is_another_code(write, folder):
    module = write("from torch.optim import RAdam as Plain")
    first = word(module)
    (folder / f"{module}.py").write_text("from torch.optim import NAdam as Plain")
    assert word(module) != first


def test_what_no_import_statement_names_is_noted_by_the_run_that_executes_it(write, folder, tmp_path, capsys):
    """It can't be in the key, as keys are made without running code; the plan says what was edited since."""
    names = [write(f"FACTOR = {number}") for number in (1, 2)]
    lazy = f"spec_from_file_location('lazy', {str(folder / names[1])!r} + '.py')"
    text = textwrap.dedent(PLAIN).replace("        super()", f"        lazy = {lazy}\n        super()")
    text = text.replace(
        "        super()", "        lazy.loader.exec_module(module_from_spec(lazy))\n        super()"
    )
    head = "import importlib\nfrom importlib.util import module_from_spec, spec_from_file_location\n"
    module = write(f"{head}importlib.import_module('{names[0]}')\n{text}")
    write("unrelated = 1")
    settings = BASE | {"optimizer.name": f"{module}:Plain", "optimizer.lr": 0.1}
    words = [f"{name}={value}" for name, value in settings.items()]
    root = ["--root", str(tmp_path)]
    assert main(["run", *root, *words]) == 0
    [record] = [json.loads(path.read_text()) for path in tmp_path.glob("runs/*/*/record.json")]
    ran = record["environment"]["imports"]
    assert list(ran) == [f"{name}.py" for name in names]
    config, key = resolve_config(settings), record["key"]
    spec = tmp_path / "s.yaml"
    block = {"name": "own", "set": {"optimizer.name": f"{module}:Plain"}, "space": {"optimizer.lr": [0.1]}}
    spec.write_text(json.dumps({"name": "s", "base": BASE, "blocks": [block]}))

    def plan():
        capsys.readouterr()
        assert main(["sweep", "plan", str(spec), "--json", "--no-measure", *root]) == 0
        [facts] = json.loads(capsys.readouterr().out)
        assert facts["states"] == {"completed": 1}, "the key does not depend on what was executed"
        return facts["edited"]

    assert plan() == {}
    for name, text, edited in ((0, "# more\nFACTOR = 1", []), (1, "FACTOR = 3", [f"{names[1]}.py"])):
        (folder / f"{names[name]}.py").write_text(text)
        assert parts.edited_since(config, ran) == edited
    assert plan() == {f"{names[1]}.py": 1} and run_key(resolve_config(settings)) == key
    outside = {"../s.yaml": ran[f"{names[0]}.py"], "/etc/passwd": "0", "\0": "0"}
    assert parts.edited_since(config, outside) == list(outside), "no record leads out of the folder"


def test_an_installed_part_has_its_version_in_the_key():
    (found,) = of("torch.optim:RAdam").revisions.values()
    name, version, digest = found.split()
    assert (name, version) == ("torch", torch.__version__.partition("+")[0]) and len(digest) == 12


def test_a_worker_that_finds_other_code_than_was_planned_trains_nothing(write, tmp_path):
    settings = BASE | {"optimizer.name": f"{write(PLAIN)}:Plain"}
    said = []
    point = Point("s", "b", "search", "0" * 12, settings)
    assert execute(tmp_path, point, Monitor(), said.append) == EXIT_ENDED
    assert "was planned with other code, data or defaults than this machine has now" in str(said[0])
    assert not list(tmp_path.glob("runs/*/*"))


# --- models ---


NETS = """
    from torch import nn

    class Tiny(nn.Module):
        kind = "image"

        def __init__(self, classes, width=4):
            super().__init__()
            self.head = nn.Linear(64, classes)

        def forward(self, x):
            return self.head(x.flatten(1))

    def tiny(**options):
        return Tiny(options["classes"])

    tiny.batch_norm = False

    def wants(height):
        return Tiny(3)

    def none():
        return 3
"""


def test_a_model_gets_what_it_takes_of_the_options_of_the_task(write):
    module = write(NETS)
    options = {"classes": 7, "in_channels": 1}
    assert models.build(f"{module}:Tiny", **options).head.out_features == 7
    assert models.build(f"{module}:tiny", **options).head.out_features == 7
    with pytest.raises(ValueError, match=r"needs 'height', which the task does not give$"):
        models.build(f"{module}:wants", **options)
    with pytest.raises(ValueError, match=r"must return a torch.nn.Module, not int$"):
        models.build(f"{module}:none", **options)


def test_a_model_that_does_not_fit_the_task_is_refused(write):
    module = write(NETS + "\n    four = 4\n")
    with pytest.raises(UsageError, match=r"The model 'part\d+:Tiny' does not fit the task 'pydocs'"):
        resolve_config(BASE | {"task": "pydocs", "model": f"{module}:Tiny"})
    assert resolve_config(BASE | {"model": f"{module}:Tiny"}).revisions.keys() == {"model"}
    with pytest.raises(UsageError, match="must be a class or a function that returns a model, not 4"):
        resolve_config(BASE | {"model": f"{module}:four"})


def test_how_a_batch_is_divided_counts_unless_the_model_says_otherwise(write):
    module = write(NETS)

    def key(model, **more):
        return run_key(resolve_config(BASE | {"model": f"{module}:{model}"} | more))

    assert key("Tiny") != key("Tiny", micro_batch=4)
    assert key("tiny") == key("tiny", micro_batch=4)


def test_a_model_trains(write, tmp_path, capsys):
    words = [f"{name}={value}" for name, value in (BASE | {"model": f"{write(NETS)}:Tiny"}).items()]
    assert main(["run", "--root", str(tmp_path), *words, "optimizer.name=sgdm"]) == 0
    assert "completed after 3 steps" in capsys.readouterr().out


# --- tasks ---


DATA = """
    from htbench.harness.tasks import TaskSpec

    def fingerprint():
        return "abc"

    def load(cache, *, batch_size, seq_len, data_seed):
        from htbench.harness.data import digits

        return digits.load(cache, batch_size=batch_size, seq_len=seq_len, data_seed=data_seed)

    def broken():
        raise KeyError("x")

    TASK = TaskSpec("", "image", "loss", False, f"{__name__}:fingerprint", f"{__name__}:load", adamw_lr=0.02)
    BROKEN = TaskSpec("", "image", "loss", False, f"{__name__}:broken", f"{__name__}:load", adamw_lr=0.02)
    three = 3
"""


def test_a_task_is_a_row_in_a_module(write):
    module = write(DATA)
    config = resolve_config(BASE | {"task": f"{module}:TASK", "optimizer.name": "muon"})
    assert (config.data_fingerprint, config.optimizer.aux_lr) == ("abc", 0.02)
    assert config.revisions.keys() - {"optimizer"} == {"task"}
    with pytest.raises(UsageError, match=r"must be an instance of harness.tasks.TaskSpec, not 3$"):
        resolve_config(BASE | {"task": f"{module}:three"})
    with pytest.raises(
        UsageError, match=r"^The fingerprint of the task 'part\d+:BROKEN' fails with KeyError: 'x'$"
    ):
        resolve_config(BASE | {"task": f"{module}:BROKEN"})


def test_a_record_tells_of_a_task_that_is_gone():
    told = {"task": {"kind": "image", "metric": "loss", "higher_is_better": False}}
    row = tasks.recorded("gone:TASK", told)
    assert (row.kind, row.metric, row.higher_is_better) == ("image", "loss", False)
    digits = tasks.TASKS["digits"]
    assert tasks.recorded("digits", {}) is digits and tasks.described(digits) == {}


# --- files ---


def test_files_to_take_along_are_whole_packages_and_imported_neighbours(folder, write):
    package = f"pack{next(_NUMBERS)}"
    neighbour = write("x = 1")
    write(
        f"import {neighbour}, torch, os, htbench.optimizers{PLAIN}".replace("\n    ", "\n"), f"{package}.opt"
    )
    (folder / package / "table.json").write_text("{}")
    (folder / package / ".secret").write_text("")
    write("not = needed", "other_module_beside")
    found = parts.loose_files([f"{package}.opt"])
    assert {str(path) for path in found} == {f"{package}/opt.py", f"{package}/table.json", f"{neighbour}.py"}
    assert all(source == folder / path for path, source in found.items())


# --- the contract ---


def test_check_names_what_is_wrong(write, capsys):
    good = PLAIN.replace(
        "(self, closure=None):",
        "(self, closure=None):\n            loss = closure and torch.enable_grad()(closure)()",
    )
    good += "            return loss\n"
    assert main(["zoo", "--check", f"{write(good)}:Plain"]) == 0
    first, _, verdicts, *_ = capsys.readouterr().out.splitlines()
    assert first.endswith(":Plain passes: all 13 properties hold")
    assert verdicts.startswith("ok: ") and len(verdicts.split(", ")) == 13

    bad = good.replace("p -= group", "p.grad += 1; p -= group")
    assert main(["zoo", "--check", f"{write(bad)}:Plain", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    promised("zoo --check", found)
    assert found["leaves_gradients"] == "a step changes the gradients"
    assert found["repeats"] == ""
    assert main(["zoo", "--check", "nosuchmodule:A"]) == 2


def test_what_is_not_routed_to_a_class_without_weight_decay_has_none(write):
    optimizer = optimizers.build(
        f"{write(PLAIN)}:Plain", models.build("llama-nano"), lr=0.1, routing="hidden"
    )
    decays = {
        type(part).__name__: {g.get("weight_decay") for g in part.param_groups} for part in optimizer.parts
    }
    assert decays == {"Plain": {None}, "AdamW": {0.0}}
