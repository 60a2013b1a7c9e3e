"""Parts of docs/outside.md: which optimizer classes of other packages do all that training expects of one.

python -m docs.outside_page --check PACKAGE    tries the installed package's classes that the CSV lacks

A class is tried in a process of its own with a time limit, as `htbench zoo --check` does: with its defaults,
and if it can't take all shapes, for matrices only.
"""

import argparse
import csv
import importlib
import importlib.metadata
import io
import multiprocessing
import pkgutil
import resource
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from multiprocessing.connection import Connection
from pathlib import Path

from docs import reproduction_records as records
from docs.config_page import table
from docs.reproduction_page import answer
from htbench.harness.bench import conversions
from htbench.harness.choice.winner import grouped
from htbench.harness.show.note import Note
from htbench.harness.system import atomic
from htbench.results.frames.load import load_rows
from htbench.results.tables.answer import answers

FACTS = Path(__file__).parent / "outside" / "classes.csv"
SWEEP = "outside-eight"
PACKAGES = {
    "pytorch_optimizer": "pytorch-optimizer",
    "heavyball": "heavyball",
    "emerging_optimizers": "emerging-optimizers",
}
ATTEMPTS = ("", "routing=matrix")  # all parameters; AdamW takes vectors, and a net's kernels
ARGUMENTS = {"AdaptiveMuon": "momentum=0.95"}  # of a class without a default of its own
SHAPES = {"learns", "keeps_dtype", "takes_shapes"}  # properties that it may mend
LIMIT = 60  # seconds of a core for an attempt: however busy the machine is
PASSES, FAILS, REFUSED, BROKEN, ENDLESS = "passes", "fails", "refused", "not built", "time limit"


@dataclass(frozen=True)
class Tried:
    """A class with the arguments that do best.

    Attributes:
        package: its distribution.
        version: of the package.
        name: "module:Class", as commands take it.
        arguments: of `zoo --check` after the name.
        verdict: one of the words above.
        properties: those that do not hold, by the names of `harness.bench.contract.PROPERTIES`.
        reason: what was said of the first of them, or why the class can't be built.
    """

    package: str
    version: str
    name: str
    arguments: str
    verdict: str
    properties: str = ""
    reason: str = ""


def committed() -> list[Tried]:
    """The facts of the page."""
    with FACTS.open(encoding="utf-8", newline="") as file:
        return [Tried(**row) for row in csv.DictReader(file)]


# --- the page ---


def properties() -> str:
    """What the check wants, where some class fails it."""
    known = {own for row in committed() for own in row.properties.split()}
    return table(
        ("property", "what must hold"), [(f"`{own}`", f"{Note(f'property_{own}')}") for own in sorted(known)]
    )


def packages() -> str:
    """A row per package: how many of its classes do what; the CSV has them one by one."""
    rows = []
    for (name, version), own in grouped(committed(), lambda row: (row.package, row.version)).items():
        fit = [row for row in own if row.verdict in (PASSES, FAILS) and row.properties in ("", "copies")]
        counts = Counter(row.verdict for row in own if row not in fit)
        rest = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
        rows.append((f"{name} {version}", f"{len(own)}", f"{len(fit)}", rest))
    return table(("package", "classes", "do all that a run asks for", "others"), rows)


def factors() -> str:
    """What equals ours, with the versions that were run."""
    rows = [(f"{row.package} {row.version}", *conversions.words(row)) for row in conversions.conversions()]
    return table(("package", *(column.head for column in conversions.KNOWN)), rows)


def result() -> str:
    """What came out of the sweep, from its compact records."""
    with tempfile.TemporaryDirectory() as folder:
        store = records.unpacked(Path(folder), [SWEEP], FACTS.parent / "records")
        (found,) = answers(load_rows(store), store)
    return answer(found)


def main(words: Sequence[str] | None = None) -> int:
    """Try a package."""
    parser = argparse.ArgumentParser(prog="python -m docs.outside_page", description=__doc__)
    parser.add_argument("--check", choices=PACKAGES, required=True, help="try the classes of this package")
    note(parser.parse_args(words).check)
    return 0


# --- to try a package ---


def classes(package: str) -> Iterator[str]:
    """The public optimizer classes of an installed package, each by its shortest place.

    A package that exports none at its top is looked for them one level below.
    """
    from torch.optim import Optimizer

    top = importlib.import_module(package)
    below = [f"{package}.{own.name}" for own in pkgutil.iter_modules(top.__path__) if own.name[0] != "_"]
    for places in ([package], below):
        found: dict[type, str] = {}
        for place in places:
            try:
                own = vars(importlib.import_module(place))
            except ImportError as error:
                print(f"{place}: {error}", file=sys.stderr)
                continue
            for name, cls in own.items():
                ours = isinstance(cls, type) and issubclass(cls, Optimizer) and name[0] != "_"
                if ours and cls.__module__.partition(".")[0] == package:
                    found.setdefault(cls, f"{place}:{name}")
        if found:
            yield from sorted(found.values())
            return


def tried(name: str, package: str = "", version: str = "") -> Tried:
    """The best attempt at a class: the first without a fault, else that with the fewest."""
    found = []
    own = ARGUMENTS.get(name.rpartition(":")[2], "")
    for arguments in (f"{own} {more}".strip() for more in ATTEMPTS):
        found.append(Tried(package, version, name, arguments, *_in_process(name, arguments)))
        wrong = {*found[-1].properties.split()}
        if found[-1].verdict not in (BROKEN, FAILS) or (wrong and not wrong & SHAPES):
            break
    order = (PASSES, REFUSED, FAILS, ENDLESS, BROKEN)
    return min(found, key=lambda own: (order.index(own.verdict), len(own.properties.split())))


def _in_process(name: str, arguments: str) -> tuple[str, str, str]:
    """Verdict, properties and reason. The process is a fork, which has imported torch and the package."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_attempt, args=(name, arguments, theirs))
    process.start()
    theirs.close()
    try:
        return ours.recv()
    except EOFError:
        process.join()
        return (ENDLESS, "", "") if process.exitcode == -signal.SIGXCPU else (BROKEN, "", "its process died")
    finally:
        process.join()


def _attempt(name: str, arguments: str, answer: Connection) -> None:
    import torch

    from htbench.harness.bench import contract, zoo
    from htbench.harness.config import parts
    from htbench.harness.config.yaml_text import read_words
    from htbench.optimizers.zoo.registry import spec

    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 5))
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    parts.allow([name])
    try:
        spec(name)
    except ValueError as error:
        answer.send((REFUSED, "", str(error)))
        return
    try:
        build = contract.builder(name, zoo.build_settings(read_words(arguments.split())))
    except ValueError as error:
        answer.send((BROKEN, "", str(error)))
        return
    wrong = {own: why for own, why in contract.check(build) if why}
    answer.send((FAILS if wrong else PASSES, " ".join(wrong), next(iter(wrong.values()), "")))


def note(package: str) -> None:
    """Try those classes of a package that the CSV lacks at its version; what is tried is kept at once."""
    distribution = PACKAGES[package]
    version = importlib.metadata.version(distribution)
    rows = [own for own in committed() if own.package != distribution or own.version == version]
    known = {own.name for own in rows}
    for name in (one for one in classes(package) if one not in known):
        rows.append(tried(name, distribution, version))
        print(*asdict(rows[-1]).values(), sep=" | ", file=sys.stderr, flush=True)
        _keep(rows)


def _keep(rows: Sequence[Tried]) -> None:
    order, text = list(PACKAGES.values()), io.StringIO()
    writer = csv.DictWriter(text, [own.name for own in fields(Tried)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(asdict, sorted(rows, key=lambda own: (order.index(own.package), own.name))))
    atomic.write_text(FACTS, text.getvalue())


if __name__ == "__main__":
    sys.exit(main())
