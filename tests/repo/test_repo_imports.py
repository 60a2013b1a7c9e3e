"""What must stay light: little in `htbench --help`, no torch in commands that only look.

Which modules do without torch is a law of the layers (`test_repo_layering.py`).
"""

import os
import resource
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEAVY = {"torch", "pandas", "optuna", "matplotlib", "seaborn", "omegaconf"}
# Each begins with its exit status: a mistake is told before anything heavy is loaded.
LIGHT = ["0 zoo", *(f"0 {name} --help" for name in ("doctor", "sweep", "table", "run", "runs"))]
LIGHT += ["2 bench optimizers --only mun"]
CPU_SECONDS_OF_HELP = 0.3  # demanded of a command line that people call all day

# One Python for all: what a command loads stays, so the first that loads too much is named.
PROGRAM = """
import sys
from htbench.harness import cli
assert cli.main(["--help"]) == 0 and "argparse" in sys.modules
assert not {*sys.argv[1].split()} & {name.partition(".")[0] for name in sys.modules}, "--help"
for status, *words in map(str.split, sys.argv[2:]):
    assert cli.main(words) == int(status) and "torch" not in sys.modules, words
"""


def test_help_imports_nothing_heavy_and_other_light_commands_no_torch():
    words = [sys.executable, "-c", PROGRAM, " ".join(HEAVY), *LIGHT]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_help_is_quick():
    command = Path(sys.executable).with_name("htbench")
    words = [command] if command.exists() else [sys.executable, "-m", "htbench"]
    assert any(cpu_seconds([*words, "--help"]) <= CPU_SECONDS_OF_HELP for _ in range(5))


def cpu_seconds(words: list[str | Path]) -> float:
    def spent() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = spent()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": str(ROOT)})
    return spent() - before
