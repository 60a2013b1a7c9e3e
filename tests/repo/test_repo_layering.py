"""The README's picture of the packages, held against every import in them, wherever in a file it stands."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {"harness", "sweeps", "optimizers", "models", "results"}
LEAVES = {"optimizers", "models"}
FORBIDDEN = {"harness": {"sweeps", "results"}, "sweeps": {"results"}, "results": {"sweeps", "torch"}}
OPTUNA_FILES = ("distinct", "journal", "link", "parameters", "samplers", "study", "told", "trials")
ONLY_HOME = {
    "optuna": {f"sweeps/{name}.py" for name in OPTUNA_FILES},
    "submitit": {"sweeps/cluster/job.py", "sweeps/cluster/job_array.py"},
}
FILES = sorted(path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def imported(source: str, package: str) -> set[str]:
    """Top-level names of all imports: at the top, in functions, under TYPE_CHECKING."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(package if node.level else node.module.partition(".")[0])
    return names


def breaches(file: Path, source: str) -> set[str]:
    """The imports that the picture of the house does not have."""
    package = file.parts[0]
    foreign = imported(source, package) - {package} - sys.stdlib_module_names
    wrong = foreign - {"torch"} if package in LEAVES else foreign & FORBIDDEN[package]
    return wrong | {name for name, homes in ONLY_HOME.items() if name in foreign and str(file) not in homes}


@pytest.mark.parametrize("file", FILES, ids=str)
def test_imports_stay_within_the_house(file):
    assert breaches(file, (ROOT / file).read_text()) == set()


@pytest.mark.parametrize(
    ("file", "source", "wrong"),
    [
        ("optimizers/new.py", "import math\nimport torch.nn\nfrom optimizers.base import ema", set()),
        ("optimizers/new.py", "import numpy as np", {"numpy"}),
        ("optimizers/new.py", "def f():\n    from harness import score", {"harness"}),
        (
            "models/new.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import optimizers",
            {"optimizers"},
        ),
        ("models/new.py", "from . import registry", set()),
        ("harness/new.py", "import models, optimizers, torch, psutil", set()),
        ("harness/new.py", "def f():\n    import sweeps.plan.planned", {"sweeps"}),
        ("harness/new.py", "import optuna", {"optuna"}),
        ("sweeps/new.py", "from results.analysis.load import load", {"results"}),
        ("sweeps/new.py", "from optuna.trial import TrialState", {"optuna"}),
        ("sweeps/studies/grid.py", "import optuna", set()),
        ("sweeps/plan/slots.py", "import optuna", {"optuna"}),
        ("sweeps/studies/grid.py", "import submitit", {"submitit"}),
        ("results/new.py", "def f():\n    import torch, sweeps", {"torch", "sweeps"}),
    ],
)
def test_a_breach_is_seen(file, source, wrong):
    assert breaches(Path(file), source) == wrong


def test_all_five_packages_were_read():
    assert {file.parts[0] for file in FILES} == PACKAGES
