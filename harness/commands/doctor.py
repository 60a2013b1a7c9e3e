"""`htbench doctor`: checks this machine and the store, and prints advice.

It repairs nothing.
"""

import argparse
import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from htbench.harness import tasks
from htbench.harness.data.cache import MANIFEST, damaged, differing
from htbench.harness.errors import UsageError
from htbench.harness.show.emit import emit
from htbench.harness.show.note import Note
from htbench.harness.store.check import Survey
from htbench.harness.store.layout import cache_folder
from htbench.harness.system import checks as machine
from htbench.harness.system import finding, place
from htbench.harness.system.finding import Finding, ok, problem


def add_doctor_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--json` and `--data`."""
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument(
        "--data", action="store_true", help="read all prepared data; make what is embedded again and compare"
    )


def doctor(args: argparse.Namespace) -> int:
    """Print the findings; return exit status 1 if one is a problem, else 0."""
    findings = finding.examine(args.root, CHECKS + (_digests,) * args.data)
    emit(finding.report(findings), args)
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
