"""Writes docs/outside.md: which optimizer classes of other packages do all that training expects of one.

python -m docs.outside_page                    prints the page, from docs/outside/classes.csv
python -m docs.outside_page --write            writes it into docs/
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
from docs.reproduction_page import answer
from htbench.harness.choice.winner import grouped
from htbench.harness.show.note import Note
from htbench.harness.system import atomic
from htbench.results.frames.load import load_rows
from htbench.results.tables.answer import answers

PLACE = Path(__file__).with_name("outside.md")
FACTS = Path(__file__).parent / "outside" / "classes.csv"
SWEEP = "outside-eight"
PACKAGES = {
    "pytorch_optimizer": "pytorch-optimizer",
    "heavyball": "heavyball",
    "emerging_optimizers": "emerging-optimizers",
}
# The attempts: all parameters; AdamW takes vectors; it takes kernels of convolutions as well.
ATTEMPTS = ("", "routing=matrix", "routing=matrix groups.kernels.optimizer=adamw")
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

_HEAD = """\
# Optimizers of other packages

Written by `python -m docs.outside_page --write` from [the facts](outside/classes.csv). Don't edit it.

Any `torch.optim.Optimizer` can stand where the name of an optimizer does: `module:Class` on the command line
or in a sweep file ([how](own.md)). Here the public classes of three packages went through
`htbench zoo --check module:Class`, each in a process of its own, on a CPU with PyTorch 2.13.0 and without
`torch.compile` (`TORCHDYNAMO_DISABLE=1`; `heavyball:Muon` came out alike with it). A class was checked as
it is first; then, if it can't take all shapes, with `routing=matrix`, which gives vectors to AdamW, and then
with kernels of convolutions given to AdamW as well.

`pip install dion` finds nothing on PyPI, so it is not here. `emerging-optimizers` asks for Python 3.12, and
its matrix rules import `triton`, which only builds of PyTorch for GPUs bring. **To fail one property need not
keep a class from training**: `copies` asks for a deep copy, which no run makes, and fails where a class has
attributes that the pickling of `torch.optim` drops; without `resumes` a run that was killed goes on, but not
bit for bit. A class that fails nothing but `copies` did all that a run asks for, on the small nets of the
check. `htbench compare` says which properties fail, and goes on unless it is `learns`. Most of what is
refused or not built wants what a config can't give: another optimizer, a model, a closure; some want a value
or one more package. `python -m docs.outside_page --check` tries what a new version brings.

| property | what must hold |
|---|---|"""


def page() -> str:
    """The whole page, as Markdown."""
    rows = committed()
    known = {own for row in rows for own in row.properties.split()}
    packages = grouped(rows, lambda row: (row.package, row.version))
    parts = [
        "\n".join([_HEAD, *(f"| `{own}` | {Note(f'property_{own}')} |" for own in sorted(known))]),
        *(_package(*place, found) for place, found in packages.items()),
        _SWEEP.format(file=(FACTS.parent / f"{SWEEP}.yaml").read_text(encoding="utf-8").strip()),
        _result(),
    ]
    return "\n\n".join(parts) + "\n"


def _package(name: str, version: str, rows: Sequence[Tried]) -> str:
    fit = [row for row in rows if row.verdict in (PASSES, FAILS) and row.properties in ("", "copies")]
    counts = Counter(row.verdict for row in rows if row not in fit)
    told = [row for row in rows if row.verdict in (PASSES, FAILS)]
    others = [row for row in rows if row not in told]
    alike = grouped(told, lambda row: (len(row.properties.split()), row.properties, row.arguments))
    lines = [
        f"## {name} {version}",
        "",
        f"Of {len(rows)} classes {len(fit)} do all that a run asks for; of the others: "
        + ", ".join(f"{own} x {verdict}" for verdict, own in counts.most_common())
        + ".",
        "",
        "| what fails | arguments | classes |",
        "|---|---|---|",
    ]
    for (_, wrong, arguments), own in sorted(alike.items()):
        names = ", ".join(f"`{row.name}`" for row in own)
        lines += [f"| {wrong or '**nothing**'} | {arguments and f'`{arguments}`'} | {names} |"]
    lines += ["", "| class | verdict | why |", "|---|---|---|"] if others else []
    return "\n".join([*lines, *(f"| `{row.name}` | {row.verdict} | {_cell(row.reason)} |" for row in others)])


def _result() -> str:
    """What came out of the sweep, from its compact records."""
    with tempfile.TemporaryDirectory() as folder:
        store = records.unpacked(Path(folder), [SWEEP], FACTS.parent / "records")
        (found,) = answers(load_rows(store), store)
    return answer(found)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


_SWEEP = """\
## Eight of them in one sweep beside ours

Three rates of each, chosen on validation, and the winners on three fresh seeds; matrix rules have
`optimizer.routing: hidden`, which gives embedding, head and vectors to AdamW. It shows the path: the steps
are far too few to rank optimizers. `htbench sweep run docs/outside/outside-eight.yaml`:

```yaml
{file}
```"""


def main(words: Sequence[str] | None = None) -> int:
    """Print or write the page, or try a package."""
    parser = argparse.ArgumentParser(prog="python -m docs.outside_page", description=__doc__)
    parser.add_argument("--write", action="store_true", help="into docs/")
    parser.add_argument("--check", choices=PACKAGES, help="try the classes of this package")
    args = parser.parse_args(words)
    if args.check:
        note(args.check)
    elif args.write:
        PLACE.write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")
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
    table = csv.DictWriter(text, [own.name for own in fields(Tried)], lineterminator="\n")
    table.writeheader()
    table.writerows(map(asdict, sorted(rows, key=lambda own: (order.index(own.package), own.name))))
    atomic.write_text(FACTS, text.getvalue())


if __name__ == "__main__":
    sys.exit(main())
