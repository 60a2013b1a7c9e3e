"""What a GPU tells within the minutes of a short loan, in parts, each a process with a file of its own.

    python benchmarks/gpu.py --minutes 12 --out DIR

A part writes a line of JSON into DIR/PART.jsonl after each fact, so one that lacks memory, crashes or takes
too long costs what it has not written yet; its last line says how it ended. `--resume` goes on in a folder
with the parts that are not done. Nothing is fetched, and a checkout with five packages is enough. Without a
GPU the same parts run on the CPU with tiny models: to try the program.
"""

import argparse
import contextlib
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

NEEDED = ("torch", "numpy", "psutil", "tqdm", "omegaconf")
# What is measured, and the minutes that it is guessed to take on an H100; a part is ended after twice that.
# They stand in the order of what they decide, and gpu_parts.py has a function for each.
MINUTES = {
    "machine": 0.3,
    "agreement": 2.0,
    "resumed": 0.7,
    "optimizers": 1.7,
    "counts": 0.6,
    "training": 0.8,
    "headline": 2.0,
    "stacks": 0.8,
    "compiled": 1.6,
    "side-by-side": 0.8,
    "memory": 0.7,
}


def missing() -> str:
    """What a machine lacks to run this, in a sentence; empty: nothing."""
    lacking = [name for name in NEEDED if not version(name)]
    older = [] if "torch" in lacking else [int(part) for part in version("torch").split(".")[:2]]
    if lacking:
        return f"This needs {', '.join(NEEDED)}; missing here: {', '.join(lacking)}."
    return f"This needs torch >= 2.9, not {version('torch')}." if older < [2, 9] else ""


def version(name: str) -> str:
    """Of an installed package; empty: it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def measure_here(name: str, file: Path) -> None:
    """Measure a part in this process: a line of its file for each fact."""
    root = Path(__file__).parents[1]
    sys.path[:0] = [str(root), str(root / "src")]
    import torch

    from benchmarks.gpu_parts import PARTS
    from htbench.harness.show.numbers import plain

    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with file.open("a", encoding="utf-8") as lines:
        for fact in PARTS[name](device, file.parent):
            print(json.dumps({"kind": type(fact).__name__, **plain(fact)}), file=lines, flush=True)


def measure_apart(name: str, file: Path, seconds: float) -> str:
    """Measure a part in a process of its own, which has so many seconds; return how it ended."""
    began, log = time.monotonic(), file.with_suffix(".log")
    command = [sys.executable, __file__, "--part", name, "--here", "--out", str(file.parent)]
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        try:
            outcome = "failed" if process.wait(seconds) else "done"
        except subprocess.TimeoutExpired:
            outcome = "out of time"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with the processes that it started
            process.wait()
    ended = {"outcome": outcome, "seconds": round(time.monotonic() - began, 1)}
    with file.open("a", encoding="utf-8") as lines:
        print(json.dumps(ended), file=lines)
    return outcome


def is_done(file: Path) -> bool:
    """Whether a part's file says that it ended well."""
    return file.exists() and file.read_text(encoding="utf-8").rpartition("\n{")[2].startswith(
        '"outcome": "done"'
    )


def plan(names: Iterable[str], minutes: float) -> Mapping[str, float]:
    """The parts that these minutes reach by the guesses, each with those that it may expect."""
    reached = dict[str, float]()
    for name in names:
        if minutes > 0:
            reached[name] = min(MINUTES[name], minutes)
        minutes -= MINUTES[name]
    return reached


def main(words: Sequence[str] | None = None) -> int:
    """Measure what is not done, as far as the minutes reach; 0 once all parts are done."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=12, help="that there are in all (default: 12)")
    parser.add_argument(
        "--out", type=Path, default=Path("gpu-bench"), help="folder of a machine's files (default: gpu-bench)"
    )
    parser.add_argument("--resume", action="store_true", help="go on in a folder that has files")
    parser.add_argument("--part", choices=MINUTES, action="append", help="(default: all)")
    parser.add_argument("--here", action="store_true", help="in this process, without a limit")
    args = parser.parse_args(words)
    if why := missing():
        sys.exit(why)
    ends = time.monotonic() + 60 * args.minutes
    files = {name: args.out / f"{name}.jsonl" for name in args.part or MINUTES}
    if args.here:
        for name, file in files.items():
            measure_here(name, file)
        return 0
    if not args.resume and any(file.exists() for file in files.values()):
        sys.exit(f"{args.out} has figures already; add --resume to go on, or name another folder.")
    args.out.mkdir(parents=True, exist_ok=True)
    todo = [name for name, file in files.items() if not is_done(file)]
    reached = plan(todo, args.minutes)
    print(f"{args.minutes:g} minutes; {len(files) - len(todo)} of {len(files)} parts are done")
    for name in todo:
        print(f"  {name:13}{reached[name]:5.1f} min" if name in reached else f"  {name:13}  not reached")
    for name in todo:
        seconds = min(ends - time.monotonic(), 120 * MINUTES[name])
        outcome = measure_apart(name, files[name], seconds) if seconds > 0 else "no time left"
        print(f"{name}: {outcome}", flush=True)
    return 0 if all(map(is_done, files.values())) else 1


if __name__ == "__main__":
    sys.exit(main())
