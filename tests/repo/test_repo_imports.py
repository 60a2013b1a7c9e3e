"""What must stay light: no torch in registries, configs, plans and tables, little in `htbench --help`."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TORCH_FREE = [
    *("optimizers", "optimizers.zoo.registry", "models", "models.registry"),
    *(
        "harness.config.settings",
        "harness.config.key",
        "harness.store.store",
        "harness.store.points",
        "harness.choice.winner",
        "harness.tasks",
    ),
    *("harness.cli", "harness.commands.doctor", "harness.commands.zoo", "harness.commands.run"),
    "harness.commands.runs",
    *(
        "sweeps.spec.sweep_file",
        "sweeps.plan.planned",
        "sweeps.commands",
        "sweeps.run.execute",
        "sweeps.run.pool",
        "sweeps.run.runner",
        "sweeps.run.schedule",
    ),
    *(
        "harness.cost.from_runs",
        "harness.cost.measure",
        "sweeps.screens.cost_card",
        "sweeps.screens.plan",
        "sweeps.screens.status",
        "sweeps.cluster.reap",
    ),
    *(
        "harness.system.slurm",
        "sweeps.cluster.sbatch",
        "sweeps.spec.resources",
        "sweeps.cluster.snapshot",
        "sweeps.cluster.queue",
        "sweeps.cluster.submit",
        "sweeps.cluster.job",
        "sweeps.cluster.job_array",
    ),
    *(f"results.{path.stem}" for path in sorted((ROOT / "results").glob("*.py")) if path.stem != "__init__"),
]
HEAVY = {"torch", "pandas", "optuna", "matplotlib", "seaborn", "omegaconf"}
CPU_SECONDS_OF_HELP = 0.3  # demanded of a command line that people call all day

PROGRAM = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    assert "torch" not in sys.modules, name
"""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=ROOT)


def test_torch_free_modules_do_not_import_torch():
    done = run("-c", PROGRAM, *TORCH_FREE)
    assert done.returncode == 0, done.stderr


def test_the_program_above_sees_torch():
    assert run("-c", PROGRAM, "harness.train.run").returncode == 1


def imported_by(*words: str) -> set[str]:
    """Top-level names of everything that a command imports."""
    done = run("-X", "importtime", "-m", "harness.cli", *words)
    assert done.returncode == 0, done.stderr
    rows = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "import time:" in line]
    return {name.partition(".")[0] for name in rows}


def test_help_imports_nothing_heavy():
    seen = imported_by("--help")
    assert "argparse" in seen
    assert seen & HEAVY == set()


@pytest.mark.parametrize(
    "words", ["zoo", "doctor --help", "sweep --help", "table --help", "run --help", "runs --help"]
)
def test_commands_that_need_no_torch_do_without(words):
    assert "torch" not in imported_by(*words.split())


def test_help_is_quick():
    command = Path(sys.executable).with_name("htbench")
    words = [command] if command.exists() else [sys.executable, "-m", "harness.cli"]
    assert min(cpu_seconds([*words, "--help"]) for _ in range(5)) <= CPU_SECONDS_OF_HELP


def cpu_seconds(words: list[str | Path]) -> float:
    def spent() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = spent()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": str(ROOT)})
    return spent() - before
