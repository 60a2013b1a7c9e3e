"""`htbench doctor`: checks this machine and the store, or the nodes of a cluster, and prints advice.

It repairs nothing.
"""

import argparse
import contextlib
import importlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from htbench.harness import tasks
from htbench.harness.cli import ABOVE
from htbench.harness.data.cache import MANIFEST, damaged, differing
from htbench.harness.errors import UsageError
from htbench.harness.show.emit import emit
from htbench.harness.show.note import Note
from htbench.harness.store.check import Survey
from htbench.harness.store.layout import cache_folder
from htbench.harness.system import checks as machine
from htbench.harness.system import finding, place
from htbench.harness.system.finding import Finding, ok, problem

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
        help="instead: a short job on SLURM, like those of a sweep file, runs this command there",
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
        return _show(finding.examine(args.root, CHECKS + (_digests,) * args.data), "here", args)
    if args.data:
        raise UsageError("--data is about this machine; leave it out with --sbatch.")
    patience = PATIENCE if args.patience is None else args.patience
    if not patience > 0:
        raise UsageError(f"--patience must be above 0 seconds, not {patience:g}.")
    probe = importlib.import_module(ABOVE["probe"])
    return _show(probe.probe_nodes(args.root, args.sbatch, patience), "in such jobs", args)


def _show(findings: Sequence[Finding], where: str, args: argparse.Namespace) -> int:
    emit(finding.report(findings, where), args)
    return 1 if any(each.level == "problem" for each in findings) else 0


# --- the store ---


def _store(root: Path) -> Iterator[Finding]:
    yield from Survey(root).findings()


def _data(root: Path) -> Iterator[Finding]:
    for name in tasks.TASKS:
        try:
            yield ok("data", Note("data_found", task=name, fingerprint=tasks.fingerprint(name)))
        except UsageError as error:
            yield problem("data", str(error))


def _digests(root: Path) -> Iterator[Finding]:
    """Read every prepared set; a run looks at sizes only.

    The digests of a folder stand beside the files, and whoever changes one may change the other. So embedded
    data are built again and compared.
    """
    cache, advice = cache_folder(root), Note("prepare_again")
    rebuilt = dict[Path, list[str]]()  # the files of each folder that are built otherwise today
    for name, row in tasks.TASKS.items():
        with contextlib.suppress(UsageError), tempfile.TemporaryDirectory() as place:  # `_data` tells it
            folder = cache / f"{name}-{tasks.fingerprint(name)}"
            if not row.ready and (folder / MANIFEST).exists():
                tasks.build(name, cache=Path(place), batch_size=1, data_seed=0)
                rebuilt[folder] = differing(folder, Path(place, folder.name))
    for folder in sorted(path.parent for path in cache.glob(f"[!.]*/{MANIFEST}")):
        wrong, other = damaged(folder), rebuilt.get(folder, [])
        for name in wrong:
            yield problem("data", Note("data_damaged", path=folder / name), advice)
        for name in other:
            if name not in wrong:
                yield problem("data", Note("data_differs", path=folder / name), advice)
        if not wrong and not other:
            yield ok("data", Note("data_agrees", folder=folder, made_again=folder in rebuilt))


CHECKS = (*machine.CHECKS, place.root, _store, _data)
