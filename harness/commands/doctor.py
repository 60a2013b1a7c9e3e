"""`htbench doctor`: checks this machine and the store, or the nodes of a cluster, and prints advice.

It repairs nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harness import tasks
from harness.data.cache import MANIFEST, damaged, differing
from harness.display import counted
from harness.errors import UsageError
from harness.store import Store
from harness.store.check import SECONDS, Survey, survey
from harness.store.integrity import LOST
from harness.store.layout import cache_folder
from harness.store.points import SOURCE, sweep_folder
from harness.system import checks as machine
from harness.system import finding, place
from harness.system.finding import Check, Finding, note, ok, problem

PROBE = "sweeps.cluster.probe"  # a name, as those in `harness/cli.py`: `harness` imports nothing above it
ROW_CACHE = "results.frames.row_cache"  # likewise
PATIENCE = 600.0


def add_doctor_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--json`, `--data`, `--sbatch` and `--patience`."""
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument(
        "--data", action="store_true", help="read all prepared data; make what is embedded again and compare"
    )
    parser.add_argument(
        "--sbatch",
        nargs="*",
        metavar="SPEC | key=value",
        help="instead: a short job on SLURM looks at what the jobs of a sweep file would see",
    )
    parser.add_argument(
        "--patience",
        type=float,
        metavar="SECONDS",
        help=f"that it may wait in the queue; then it is cancelled (default: {PATIENCE:.0f})",
    )


def doctor(args: argparse.Namespace) -> int:
    """Print the findings; return exit status 1 if one is a problem, else 0."""
    if args.sbatch is None and args.patience is not None:
        raise UsageError("--patience is for the job of --sbatch.")
    if args.sbatch is None:
        return finding.show(examine(args.root, CHECKS + (_digests,) * args.data), as_json=args.json)
    if args.data:
        raise UsageError("--data is about this machine; leave it out with --sbatch.")
    patience = PATIENCE if args.patience is None else args.patience
    if not patience > 0:
        raise UsageError(f"--patience must be above 0 seconds, not {patience:g}.")
    probe = importlib.import_module(PROBE)
    return finding.show(probe.look(args.root, args.sbatch, patience), as_json=args.json)


def examine(root: Path, checks: Sequence[Check] | None = None) -> list[Finding]:
    """All findings, in a fixed order.

    Args:
        root: the store; it need not exist.
        checks: None: CHECKS.
    """
    return finding.examine(root, checks or CHECKS)


# --- the store ---


def _store(root: Path) -> Iterator[Finding]:
    found = survey(root)
    own = [name for name in found.sweeps if not (sweep_folder(root, name) / SOURCE).exists()]
    mend = f"htbench sweep index {' '.join(own) or 'SPEC'} --root {shlex.quote(str(root))}"
    runs = counted(found.runs, "run") + (f" ({found.packed} in archives)" if found.packed else "")
    records, sweeps = counted(len(found.records), "record"), counted(len(found.sweeps), "sweep")
    text = f"{runs}, {records}, {sweeps}"
    yield ok("store", text if found.runs or found.sweeps else "nothing stored yet")
    if not found.complete:
        yield note("store", "it is large: the lines below are about the records counted above")
    unpack = f"htbench runs unpack --all --root {shlex.quote(str(root))}"
    advice = {
        "link": "no command follows them; remove them, or put the file or the folder itself there",
        "archive": f"`{unpack}` brings back what can be read; `htbench sweep run` trains the rest again",
        "record": f"`{mend}` restores what index.jsonl has; `htbench sweep run` trains the rest again",
        "points": f"`{mend}` writes them again",
        "study": f"`{mend}` writes them again",
        "slot": f"`{mend}` fills them again with the trials of their studies",
        "submissions": "nothing to do: a lost line costs at most some jobs that find their runs done",
        "attempt": "nothing to do: such a run is taken over when its heartbeat is two minutes old",
    }
    for kind, paths in found.damaged.items():
        level = note if kind in ("attempt", "submissions") else problem
        named = "links" if kind == "link" else f"damaged {kind} files"
        yield level("store", f"{named}: {', '.join(paths)}", advice[kind])
    if found.ahead:
        text = f"heartbeats from the future: {_first_three(found.ahead)}"
        clock = "they prove no life: the same command takes such a run over; set the clock of its machine"
        yield note("store", text, clock)
    yield from _records(found, root)
    yield from _index(found, mend)
    if found.leftovers:
        text = f"temporary files of dead processes: {_first_three(found.leftovers)}"
        yield note("store", text, "harmless; delete them when nothing runs")


def _records(found: Survey, root: Path) -> Iterator[Finding]:
    """Report each run whose record is lost or contradicts its curve."""
    store = Store(root)
    for key, what in found.faults.items():
        delete = f"delete {shlex.quote(str(store.run_folder(key)))}"
        if key in store.packed.look().runs:
            delete = f"`htbench runs unpack {key}`, then {delete}"
        advice = "" if what.kind in LOST else f"{delete}: then the same command trains the run again"
        yield problem("records", f"run {key}: {what}", advice)
    for key, contradictions in found.contested.items():
        for path, differences in contradictions.items():
            told = (f"{one.name} is {one.here}, and {one.there} in '{path}'" for one in differences)
            keep = f"`htbench runs pack`, then delete '{path}' to keep what tables show"
            yield problem("records", f"run {key}: {', '.join(told)}", keep)
    if found.without_curve:
        text = f"completed runs without metrics.jsonl: {_first_three(found.without_curve)}"
        yield note("records", text, "nothing vouches for their figures")


def _index(found: Survey, mend: str) -> Iterator[Finding]:
    lacking = [key for key, size in found.records.items() if found.index.get(key) != size]
    gone = found.index.keys() - found.records.keys() if found.complete else set()
    if lacking or gone or found.torn_index_lines:
        text = f"index.jsonl lacks {counted(len(lacking), 'record')}, has {len(gone)} whose run has none"
        text += f", and {counted(found.torn_index_lines, 'torn line')}"
        yield note("index", text, f"`{mend}` writes it anew")
    elif differing := [key for key in found.differing if key not in lacking]:
        text = f"index.jsonl has other figures than record.json for {_first_three(differing)}"
        yield problem("index", text, f"`{mend}` writes it anew from the records")
    elif found.records:
        yield ok("index", "index.jsonl agrees with the run folders")


def _rows(root: Path) -> Iterator[Finding]:
    """Compare the rows that tables keep with what they were made of; tables trust them."""
    cache: Any = importlib.import_module(ROW_CACHE)
    compared, differing = cache.differing(Store(root), SECONDS)
    if differing:
        text = f"cache/rows.json has other values than the records of runs {', '.join(differing)}"
        yield problem("cache", text, "delete it: the next table makes it anew")
    elif compared:
        yield ok("cache", f"cache/rows.json agrees with {counted(compared, 'record')}")


def _first_three(paths: list[str]) -> str:
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


def _data(root: Path) -> Iterator[Finding]:
    for name in tasks.TASKS:
        try:
            yield ok("data", f"{name}: fingerprint {tasks.fingerprint(name)}")
        except UsageError as error:
            yield problem("data", str(error))


def _digests(root: Path) -> Iterator[Finding]:
    """Read every prepared set; a run looks at sizes only."""
    made = _made_again(cache_folder(root))
    advice = "delete it and prepare again: `htbench data prepare`, or the next run"
    for folder in sorted(path.parent for path in cache_folder(root).glob(f"[!.]*/{MANIFEST}")):
        wrong, other = damaged(folder), made.get(folder, [])
        for name in wrong:
            yield problem("data", f"'{folder / name}' is missing or damaged", advice)
        for name in other:
            if name not in wrong:
                yield problem("data", f"'{folder / name}' is not what its source gives", advice)
        if not wrong and not other:
            source = ", and its source gives the same" if folder in made else ""
            yield ok("data", f"'{folder}': all digests agree{source}")


def _made_again(cache: Path) -> dict[Path, list[str]]:
    """The prepared folders of embedded data, each with the files that its source gives otherwise today.

    The digests of a folder stand beside what they are of: whoever changes one may change the other.
    """
    found = {}
    for name, row in tasks.TASKS.items():
        with contextlib.suppress(UsageError), tempfile.TemporaryDirectory() as place:  # `_data` tells it
            folder = cache / f"{name}-{tasks.fingerprint(name)}"
            if not row.ready and (folder / MANIFEST).exists():
                tasks.build(name, cache=Path(place), batch_size=1, data_seed=0)
                found[folder] = differing(folder, Path(place, folder.name))
    return found


CHECKS = (*machine.CHECKS, place.root, _store, _rows, _data)
