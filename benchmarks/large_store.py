"""What listing, tables and the report of many runs take, of one checkout or of several side by side.

    python benchmarks/large_store.py --runs 10000 --store /tmp/large [CHECKOUT ...]

It writes the store, without training, if there is none; then for each command the CPU seconds of the whole
process and its peak memory, the least of some repetitions. CPU seconds compare on a busy machine, too, though
not to the last tenth. `cold`: the index is deleted before; `warm`: it is there.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
COMMANDS = {"table": ["table"], "report": ["report"], "ls --all": ["runs", "ls", "--all"]}
MADE = {"cold": ["index.jsonl"], "warm": []}  # state -> what is deleted for it


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkouts", nargs="*", type=Path, metavar="CHECKOUT", help="(default: this one)")
    parser.add_argument("--store", type=Path, required=True, help="its folder; written if it is not there")
    parser.add_argument(
        "--runs", type=int, default=10_000, help="in a store that is written (default: 10000)"
    )
    parser.add_argument("--repeat", type=int, default=2, help="of each measurement (default: 2)")
    parser.add_argument("--command", choices=COMMANDS, action="append", help="(default: all)")
    parser.add_argument("--state", choices=MADE, action="append", help="(default: all)")
    args = parser.parse_args()
    if not args.store.exists():
        code = "import sys; from tests.helpers.large_store import fill; fill(sys.argv[1], int(sys.argv[2]))"
        subprocess.run(
            [sys.executable, "-c", code, args.store.absolute(), str(args.runs)], cwd=HOME, check=True
        )
    print(f"{_cpu()}, {os.cpu_count()} cores, Python {platform.python_version()}: {args.store}")
    for name in args.command or COMMANDS:
        for checkout in args.checkouts or [HOME]:
            words = [sys.executable, "-m", "htbench", *COMMANDS[name], "--root", str(args.store)]
            for state, seconds, memory in _measured(words, args.store, args.state or list(MADE), args.repeat):
                print(f"{name:10}{state:6}{seconds:8.1f} s{memory:8.0f} MB  {checkout}", flush=True)


def _measured(
    words: Sequence[str], store: Path, states: Sequence[str], repeat: int
) -> Iterator[tuple[str, float, float]]:
    """For each state the least CPU seconds and peak memory in MB."""
    for state in (state for state in MADE if state in states):
        found = []
        for _ in range(repeat):
            for name in (*MADE[state], "report.html", "figures"):
                path = store / name
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            found.append(_run(words))
        yield state, *map(min, zip(*found, strict=True))


def _run(words: Sequence[str]) -> tuple[float, float]:
    with open(os.devnull, "w") as nothing:
        child = subprocess.Popen(words, stdout=nothing, env=os.environ | {"OMP_NUM_THREADS": "1"})
        _, status, used = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"{' '.join(words)} ended with status {os.waitstatus_to_exitcode(status)}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next(
        (line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine()
    )


if __name__ == "__main__":
    main()
